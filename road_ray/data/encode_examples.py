"""Encode examples as features, and keep them on disk, keyed by the content of examples, tokenizer
and limits, so that further runs, seeds and workers reuse them. Files are written atomically;
damaged ones are replaced. ``text_rows.py`` encodes texts, tags and spans.
"""

from __future__ import annotations

import hashlib
import io
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from road_ray.data.catalog import TASKS
from road_ray.data.examples import (
    FURTHER,
    IMPOSSIBLE,
    NO_WINDOWS,
    UNKNOWN,
    ChoiceExample,
    Example,
    Features,
    SpanExample,
    TagExample,
    TextExample,
)
from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    Dataset,
    JointSpan,
    Kind,
    MultiLabel,
    Regress,
    Span,
    Tag,
    Task,
    listed_labels,
    number_in,
)
from road_ray.data.text_rows import encode_spans, encode_tags, tag_numbers, text_rows
from road_ray.data.tokenizer import limit_length
from road_ray.errors import ConfigError, DataError, ResourceError
from road_ray.system.files import write_atomic

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast
_log = logging.getLogger(__name__)
LEAST_EXAMPLES = 2000  # fewer are encoded as fast as they are read
_GOLD = "gold:"
_NOT_ENCODED = ("id", "where", "accepted", "language")
FORMAT = 10
"""Version of encoding and file layout: raise it when the same example gives another file."""


def encode(
    examples: Sequence[Example],
    dataset: Dataset,
    task: Task,
    tokenizer: PreTrainedTokenizerFast,
    limits: Mapping[str, Any],
    *,
    train: bool = False,
) -> Features:
    """Return the features of a split, with labels of further tasks of spans.

    ``limits`` are those of ``row_limits`` or of the record of a model. ``windows`` other than
    ``none`` splits texts into windows with the label of their text, whose logits it pools; they do
    not overlap unless there are ``stride_tokens``. ``train`` omits arrays that only predictions
    need. Raises ``ConfigError`` for windows of pairs or choices.
    """
    limit = row_limit(limits.get("max_length_tokens"), task)
    of_kind, stride_tokens = _checked(examples, dataset, task), limits.get("stride_tokens")
    if isinstance(task.kind, Span):
        rows = encode_spans(
            of_kind, dataset.name, tokenizer, max_length_tokens=limit, train=train,
            stride_tokens=stride_tokens or 128,
        )  # fmt: skip
        of, gold = rows["example"], rows["gold"]
        unknown = np.array([not example.labelled for example in of_kind], bool)[of]
        bare = np.array([not example.answers for example in of_kind], bool)[of]
        gold |= {name: np.where(unknown, UNKNOWN, values) for name, values in gold.items()}
        if isinstance(task.kind, JointSpan):
            gold[IMPOSSIBLE] = bare.astype(np.float32)
        # Further tasks learn from windows with the answer, and of questions without one.
        labelled = (gold["start_positions"] > 0) | bare
        for other in dataset.also:
            names = cast(Classify, TASKS[other].kind).labels
            known = [names.index(dict(e.labels)[other]) if e.labels else UNKNOWN for e in of_kind]
            numbers = np.array(known, np.int64)[of]
            gold[f"{FURTHER}{other}"] = np.where(labelled, numbers, UNKNOWN)
    elif isinstance(task.kind, Tag):
        rows = encode_tags(of_kind, task, tokenizer, max_length_tokens=limit)
    else:
        if isinstance(task.kind, Choose):
            labels, columns = _choices(of_kind, task)
        else:
            labels, width = _labels(of_kind, dataset, task), len(dataset.columns.text)
            columns = [[example.texts[place] for example in of_kind] for place in range(width)]
        windows = limits.get("windows") or NO_WINDOWS
        if windows != NO_WINDOWS and len(columns) > 1:
            raise ConfigError(
                f"data.windows = {windows}: {dataset.name} has rows of two texts\n"
                "  allowed: tasks of one text with classes, several labels or a number"
            )
        stride = None if windows == NO_WINDOWS else stride_tokens or 0
        rows = text_rows(columns, tokenizer, max_length_tokens=limit, stride_tokens=stride)
        if isinstance(task.kind, Choose):  # whose rows of tokens are choices
            rows |= {"example": rows["example"][: len(labels)], "choices": task.kind.choices}
        rows |= {"gold": {"labels": labels[rows["example"]]}, "pooling": windows}
    return Features(dataset.name, task.name, max_length_tokens=limit, **rows)


def row_limit(max_length_tokens: int | None, task: Task) -> int:
    """Return the number of tokens of a row at most: 384 for spans and 128 otherwise by default."""
    return max_length_tokens or (384 if isinstance(task.kind, Span) else 128)


def row_lengths(
    record: Mapping[str, Any], task: Task, tokenizer: PreTrainedTokenizerFast, positions: int
) -> tuple[int, int]:
    """Return the tokens of a row of a model, and those that it reads at most: as in its training,
    of another program as many as plain ``transformers`` reads, of spans 384.
    """
    known = "max_length_tokens" in record
    trained = row_limit(record["max_length_tokens"], task) if known else None
    longest = limit_length(tokenizer, positions, trained)
    usual = row_limit(None, task) if isinstance(task.kind, Span) else longest
    return min(trained or usual, longest), longest


def check_labels(examples: Sequence[Example], dataset: Dataset, task: Task) -> None:
    """Raise ``DataError`` for a label outside the task's set or range."""
    of_kind = _checked(examples, dataset, task)
    if isinstance(task.kind, Tag):
        tag_numbers(of_kind, task)
    elif isinstance(task.kind, Classify | MultiLabel | Regress):
        _labels(of_kind, dataset, task)


def _checked(examples: Sequence[Example], dataset: Dataset, task: Task) -> list[Any]:
    """Return the examples. Raises ``ConfigError`` if they are not of the kind of the task."""
    kinds: dict[type[Kind], type[Example]]
    kinds = {Span: SpanExample, Tag: TagExample, Choose: ChoiceExample}
    kind = next((kinds[k] for k in kinds if isinstance(task.kind, k)), TextExample)
    if not all(issubclass(found, kind) for found in set(map(type, examples))):
        raise ConfigError(
            f"data set {dataset.name!r} with layout {dataset.layout!r} does not fit the task "
            f"{task.name!r}: {type(task.kind).__name__}"
        )
    return list(examples)


def _choices(
    examples: Sequence[ChoiceExample], task: Task
) -> tuple[NDArray[np.int64], list[list[str]]]:
    """Return the right choice of each question, and the columns of questions and choices.

    Raises ``DataError`` for a question with another number of choices than the task.
    """
    number = cast(Choose, task.kind).choices
    for example in examples:
        if len(example.choices) != number:
            raise DataError(
                f"{example.where}: {len(example.choices)} choices, {task.name!r} has {number}\n"
                "  fix: correct the row, or remove the question"
            )
    right = [UNKNOWN if e.answer is None else e.answer for e in examples]
    questions = [e.question for e in examples for _ in range(number)]
    return np.array(right, np.int64), [questions, [c for e in examples for c in e.choices]]


def _labels(examples: Sequence[TextExample], dataset: Dataset, task: Task) -> NDArray[Any]:
    """Return numbers or classes ``[N]``, or of several labels 1 for those of a row and 0 for others
    ``[N, C]``; -100 for unknown ones. Raises ``DataError`` for a label that the task has not.
    """
    kind, remedy = task.kind, "correct `labels`, or the rows, or map the values by `label_map`"
    several, first = isinstance(kind, MultiLabel), dict[str | None, str]()
    for example in examples:  # most labels occur many times
        first.setdefault(example.label, example.where)
    labels = {x: listed_labels(x, w) if several else [x] for x, w in first.items() if x is not None}
    written = list({name: None for names in labels.values() for name in names})
    if isinstance(kind, Regress):
        values = [
            x if x is not None and kind.low <= x <= kind.high else None
            for x in map(number_in, written)
        ]
        allowed = f"a number from {kind.low} to {kind.high}"
        remedy = "correct the rows, or set `low` and `high`"
    else:
        names = cast(Classify | MultiLabel, kind).labels
        known = {name: index for index, name in enumerate(names)}
        values = list(map(known.get, written))
        mapped = [f"{v!r} = {name}" for v, name in dataset.label_map.items() if v != name]
        allowed = ", ".join([*names, *mapped])
    number: dict[str | None, float | None] = dict(zip(written, values, strict=True))
    unusable: dict[Any, str] = {
        x: n for x, names in labels.items() for n in names[::-1] if number[n] is None
    }
    if unusable:
        wrong = [example for example in examples if example.label in unusable]
        others = f"; {len(wrong) - 1} more rows have one that is not" if wrong[1:] else ""
        raise DataError(
            f"{wrong[0].where} label={unusable[wrong[0].label]!r}, allowed: {allowed}{others}\n"
            f"  fix: {remedy} in the data set's entry"
        )
    if isinstance(kind, MultiLabel):
        sets: dict[Any, Any] = {
            x: [name in names for name in kind.labels] for x, names in labels.items()
        }
        unknown = [UNKNOWN] * kind.width
        rows = [sets.get(e.label, unknown) for e in examples]
        return np.array(rows, np.int64).reshape(-1, kind.width)
    dtype = np.float32 if isinstance(kind, Regress) else np.int64
    return np.array([number.get(e.label, UNKNOWN) for e in examples], dtype)


def cache_key(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerFast, **limits: object
) -> str:
    """Return 32 hexadecimal digits of a hash of examples, tokenizer and limits."""
    digest = hashlib.sha256(repr((FORMAT, *sorted(limits.items()))).encode())
    backend: Any = tokenizer.backend_tokenizer
    # An earlier call of the tokenizer may have left its limits behind; encoding sets none.
    backend.no_truncation()
    backend.no_padding()
    digest.update(backend.to_str().encode())
    digest.update(repr((tokenizer.model_input_names, tokenizer.truncation_side)).encode())
    for example in examples:
        values = [value for name, value in vars(example).items() if name not in _NOT_ENCODED]
        digest.update(repr(values).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def load_or_encode(directory: Path, key: str, make: Callable[[], Features]) -> Features:
    """Return the features stored under ``key``, or those of ``make``, which are then stored.

    A directory that cannot be written causes only a warning.
    """
    path = directory / f"{key}.features"
    try:
        with np.load(path, allow_pickle=False) as archive:  # the zip format has checksums
            stored: dict[str, Any] = {name: archive[name] for name in archive.files}
        if stored.pop("key").item() != key:
            raise ValueError("it is the file of other rows")
        gold = {n.removeprefix(_GOLD): stored.pop(n) for n in list(stored) if n.startswith(_GOLD)}
        parts = {name: value if value.ndim else value.item() for name, value in stored.items()}
        return Features(gold=gold, **parts)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except Exception as error:  # numpy and zipfile raise many types
        _log.warning("%s is damaged (%s): features are encoded again", path, error)
    features = make()
    arrays: dict[str, Any] = {f"{_GOLD}{name}": values for name, values in features.gold.items()}
    others = {n: v for n, v in vars(features).items() if n != "gold" and v is not None}
    arrays |= {name: np.asarray(value) for name, value in (others | {"key": key}).items()}
    content = io.BytesIO()
    np.savez(content, **arrays)
    try:
        write_atomic(path, content.getbuffer())
    except ResourceError as error:
        _log.warning("features are not kept (ROAD_CACHE names another directory): %s", error)
    return features
