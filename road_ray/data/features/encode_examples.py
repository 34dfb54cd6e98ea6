"""Encode examples as features; ``span_windows.py`` and ``word_tags.py`` encode spans and tags."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import (
    FURTHER,
    IMPOSSIBLE,
    UNKNOWN,
    ChoiceExample,
    Example,
    Features,
    SpanExample,
    TagExample,
    TextExample,
)
from road_ray.data.features.span_windows import encode_spans
from road_ray.data.features.text_rows import text_rows
from road_ray.data.features.word_tags import encode_tags, tag_numbers
from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    Dataset,
    JointSpan,
    Regress,
    Span,
    Tag,
    Task,
)
from road_ray.errors import ConfigError, DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def encode(
    examples: Sequence[Example],
    dataset: Dataset,
    task: Task,
    tokenizer: PreTrainedTokenizerFast,
    *,
    train: bool = False,
    max_length_tokens: int | None = None,
    further: Sequence[Task] = (),
    **span_limits: int,
) -> Features:
    """Return the features of a split, with labels of the ``further`` tasks of spans.

    ``max_length_tokens`` defaults to ``row_limit``; ``stride_tokens`` and ``max_question_tokens``
    apply to spans. ``train`` omits arrays that only predictions need.
    """
    limit = row_limit(max_length_tokens, task)
    if isinstance(task.kind, Span):
        spans = _all_of(SpanExample, examples, dataset, task)
        rows = encode_spans(
            spans, dataset, tokenizer, max_length_tokens=limit, train=train, **span_limits
        )
        if not all(example.labelled for example in spans):
            unknown = np.array([not example.labelled for example in spans])[rows.example]
            gold = {name: np.where(unknown, UNKNOWN, v) for name, v in rows.gold.items()}
            rows = replace(rows, gold=gold)
        if isinstance(task.kind, JointSpan):
            bare = np.array([not example.answers for example in spans], np.float32)
            rows = replace(rows, gold={**rows.gold, IMPOSSIBLE: bare[rows.example]})
        return _with_further(rows, spans, further) if further else rows
    if isinstance(task.kind, Tag):
        sentences = _all_of(TagExample, examples, dataset, task)
        return encode_tags(sentences, dataset.name, task, tokenizer, max_length_tokens=limit)
    if isinstance(task.kind, Choose):
        questions = _all_of(ChoiceExample, examples, dataset, task)
        return encode_choices(questions, dataset, task, tokenizer, max_length_tokens=limit)
    texts = _all_of(TextExample, examples, dataset, task)
    return encode_texts(texts, dataset, task, tokenizer, max_length_tokens=limit)


def row_limit(max_length_tokens: int | None, task: Task) -> int:
    """Return the number of tokens of a row at most: 384 for spans and 128 otherwise by default."""
    return max_length_tokens or (384 if isinstance(task.kind, Span) else 128)


def encode_texts(
    examples: Sequence[TextExample],
    dataset: Dataset,
    task: Task,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
) -> Features:
    """Return rows of one text or two, truncated longest first.

    ``labels`` are class numbers (int64), or numbers (float32) of a regression; -100 if unknown.
    Raises ``DataError`` for a label outside the task's set or range.
    """
    width = len(dataset.columns.text)
    if width not in (1, 2):
        raise ConfigError(f"data set {dataset.name!r} has {width} text columns; allowed: 1 or 2")
    columns = [[e.texts[place] for e in examples] for place in range(width)]
    labels = _labels(examples, dataset, task)
    return Features(
        dataset=dataset.name,
        task=task.name,
        gold={"labels": labels},
        example=np.arange(len(examples), dtype=np.int32),
        max_length_tokens=max_length_tokens,
        **text_rows(columns, tokenizer, max_length_tokens=max_length_tokens, name=dataset.name),
    )


def check_labels(examples: Sequence[Example], dataset: Dataset, task: Task) -> None:
    """Raise ``DataError`` for a label outside the task's set or range."""
    if isinstance(task.kind, Tag):
        tag_numbers(_all_of(TagExample, examples, dataset, task), task)
    elif isinstance(task.kind, Classify | Regress):
        _labels(_all_of(TextExample, examples, dataset, task), dataset, task)


def _with_further(
    rows: Features, examples: Sequence[SpanExample], tasks: Sequence[Task]
) -> Features:
    """Add ``labels/<task>`` to windows with the answer, and to questions without answer."""
    starts = rows.gold["start_positions"]
    bare = np.array([not example.answers for example in examples])
    labelled = (starts > 0) | bare[rows.example]
    gold = dict(rows.gold)
    for task in tasks:
        assert isinstance(task.kind, Classify)
        known = {label: number for number, label in enumerate(task.kind.labels)}
        numbers = [known[dict(e.labels)[task.name]] if e.labels else UNKNOWN for e in examples]
        gold[f"{FURTHER}{task.name}"] = np.where(labelled, np.array(numbers)[rows.example], UNKNOWN)
    return replace(rows, gold=gold)


def encode_choices(
    examples: Sequence[ChoiceExample],
    dataset: Dataset,
    task: Task,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
) -> Features:
    """Return rows of question and choice, one for each choice.

    Raises ``DataError`` for a question with another number of choices.
    """
    assert isinstance(task.kind, Choose)
    number = task.kind.choices
    for example in examples:
        if len(example.choices) != number:
            raise DataError(
                f"{example.where} has {len(example.choices)} choices, task {task.name!r} {number}\n"
                "  fix: correct the row, or remove the question"
            )
    columns = (
        [e.question for e in examples for _ in range(number)],
        [choice for e in examples for choice in e.choices],
    )
    gold = [UNKNOWN if e.answer is None else e.answer for e in examples]
    return Features(
        dataset=dataset.name,
        task=task.name,
        gold={"labels": np.array(gold, np.int64)},
        example=np.arange(len(examples), dtype=np.int32),
        max_length_tokens=max_length_tokens,
        choices=number,
        **text_rows(columns, tokenizer, max_length_tokens=max_length_tokens, name=dataset.name),
    )


E = TypeVar("E", TextExample, SpanExample, TagExample, ChoiceExample)


def _all_of(kind: type[E], examples: Sequence[Example], dataset: Dataset, task: Task) -> list[E]:
    of_kind = [example for example in examples if isinstance(example, kind)]
    if len(of_kind) != len(examples):
        raise ConfigError(
            f"data set {dataset.name!r} with layout {dataset.layout!r} does not fit the task "
            f"{task.name!r}: {type(task.kind).__name__}"
        )
    return of_kind


def _labels(examples: Sequence[TextExample], dataset: Dataset, task: Task) -> NDArray[Any]:
    if isinstance(task.kind, Regress):
        low, high = task.kind.low, task.kind.high
        numbers = {e.label: _number(e.label, low, high) for e in examples if e.label is not None}
        allowed = f"a number from {low} to {high}"
        _check_labels(examples, numbers, allowed, "correct the rows, or set `low` and `high`")
        values = [UNKNOWN if e.label is None else numbers[e.label] for e in examples]
        return np.array(values, np.float32)
    assert isinstance(task.kind, Classify)
    names = task.kind.labels
    # Labels in the file: the names of the task, and the keys of the label map.
    known = {name: index for index, name in enumerate(names)}
    known |= {value: known[name] for value, name in dataset.label_map.items()}
    classes = {e.label: known.get(e.label) for e in examples if e.label is not None}
    written = [f"{value!r} = {name}" for value, name in dataset.label_map.items()]
    remedy = "correct `labels`, or the rows, or map the values of the file by `label_map`"
    _check_labels(examples, classes, ", ".join(written or names), remedy)
    numbered = [UNKNOWN if e.label is None else classes[e.label] for e in examples]
    return np.array(numbered, np.int64)


def _check_labels(
    examples: Sequence[TextExample], values: dict[str, Any], allowed: str, remedy: str
) -> None:
    wrong = [e for e in examples if e.label is not None and values[e.label] is None]
    if wrong:
        others = (
            f"; {len(wrong) - 1} more rows have a label that is not allowed" if wrong[1:] else ""
        )
        raise DataError(
            f"{wrong[0].where} label={wrong[0].label!r}, allowed: {allowed}{others}\n"
            f"  fix: {remedy} in the data set's entry"
        )


def _number(text: str, low: float, high: float) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and low <= value <= high else None
