"""Examples to features: sentences and pairs with a label here, spans in ``encode_spans``."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from road_ray.data.encode_spans import encode_spans
from road_ray.data.features import UNKNOWN, Example, Features, Longs, SpanExample, TextExample
from road_ray.data.ragged import Ragged, ranges, starts_of, tokenized
from road_ray.data.specs import Classify, Dataset, Regress, Task
from road_ray.errors import ConfigError, DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_log = logging.getLogger(__name__)


def encode(
    examples: Sequence[Example],
    dataset: Dataset,
    task: Task,
    tokenizer: PreTrainedTokenizerFast,
    *,
    train: bool = False,
    max_length_tokens: int | None = None,
    **span_limits: int,
) -> Features:
    """Features of a split, by the kind of its task.

    ``max_length_tokens`` is 128 for text and 384 for spans unless given; ``stride_tokens`` and
    ``max_question_tokens`` apply to spans. ``train`` leaves out what only predictions need.
    """
    if isinstance(task.kind, Classify | Regress):
        texts = [example for example in examples if isinstance(example, TextExample)]
        _check_all(texts, examples, dataset, task)
        limit = 128 if max_length_tokens is None else max_length_tokens
        return encode_texts(texts, dataset, task, tokenizer, max_length_tokens=limit)
    spans = [example for example in examples if isinstance(example, SpanExample)]
    _check_all(spans, examples, dataset, task)
    limit = 384 if max_length_tokens is None else max_length_tokens
    return encode_spans(
        spans, dataset, tokenizer, max_length_tokens=limit, train=train, **span_limits
    )


def encode_texts(
    examples: Sequence[TextExample],
    dataset: Dataset,
    task: Task,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
) -> Features:
    """Rows ``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]``, one an example, cut longest first.

    ``labels`` are class numbers (int64), or numbers (float32) for a regression; -100 where there is
    none. Raises ``DataError`` for a label outside the task's set or range.
    """
    width = len(dataset.columns.text)
    if width not in (1, 2):
        raise ConfigError(f"data set {dataset.name!r} has {width} text columns; allowed: 1 or 2")
    room = max_length_tokens - width - 1
    if room < width:
        raise ConfigError(
            f"max_length_tokens = {max_length_tokens} leaves no room for text; "
            f"allowed: at least {2 * width + 1}"
        )
    labels = _labels(examples, dataset, task)
    parts = [tokenized([e.texts[place] for e in examples], tokenizer) for place in range(width)]
    whole = np.stack([part.lengths for part in parts])
    kept = _longest_first(whole, room)
    cut = int((kept < whole).any(0).sum())
    if cut:
        rows = f"{cut} of {len(examples)} rows"
        _log.info("%s: cut %s to %d tokens", dataset.name, rows, max_length_tokens)
    parts = [part.kept(lengths) for part, lengths in zip(parts, kept, strict=True)]
    tokens, lengths = _assembled(parts, tokenizer)
    return Features(
        dataset=dataset.name,
        task=task.name,
        tokens=tokens,
        bounds=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        first_segment=(kept[0] + 2).astype(np.int32),
        gold={"labels": labels},
        example=np.arange(len(examples), dtype=np.int32),
    )


def overlap(train: Sequence[Example], dev: Sequence[Example]) -> int:
    """How many dev examples have exactly the texts of a training example."""
    seen = {_texts(example) for example in train}
    return sum(_texts(example) in seen for example in dev)


def _texts(example: Example) -> tuple[str, ...]:
    return (
        example.texts if isinstance(example, TextExample) else (example.question, example.context)
    )


def _check_all(
    found: Sequence[Example], examples: Sequence[Example], dataset: Dataset, task: Task
) -> None:
    if len(found) != len(examples):
        raise ConfigError(
            f"data set {dataset.name!r} with layout {dataset.layout!r} does not fit the task "
            f"{task.name!r}: {type(task.kind).__name__}"
        )


def _longest_first(lengths: Longs, room: int) -> Longs:
    """Tokens kept of each text, ``[texts, rows] -> [texts, rows]``: ``longest_first``.

    The longer text is cut down to the shorter, then both to half; an odd token goes to the longer,
    or to the second.
    Source: Hugging Face tokenizers, truncation.rs.
    """
    if len(lengths) == 1:
        return np.minimum(lengths, room)
    short, long = lengths.min(0), lengths.max(0)
    fair = short > room // 2
    kept_short = np.where(fair, room // 2, short)
    kept_long = np.minimum(long, room - kept_short)
    first_is_long = lengths[0] > lengths[1]
    first = np.where(first_is_long, kept_long, kept_short)
    second = np.where(first_is_long, kept_short, kept_long)
    return np.where(lengths.sum(0) <= room, lengths, np.stack([first, second]))


def _assembled(parts: Sequence[Ragged], tokenizer: Any) -> tuple[NDArray[np.int32], Longs]:
    """Token ids with specials, and the row lengths, of texts that stand beside each other."""
    lengths: Longs = np.sum([part.lengths + 1 for part in parts], axis=0) + 1
    place = starts_of(lengths)
    tokens = np.empty(int(lengths.sum()), np.int32)
    tokens[place] = tokenizer.cls_token_id
    place = place + 1
    for part in parts:
        tokens[ranges(place, part.lengths)] = part.ids[ranges(part.starts, part.lengths)]
        tokens[place + part.lengths] = tokenizer.sep_token_id
        place = place + part.lengths + 1
    return tokens, lengths


def _labels(examples: Sequence[TextExample], dataset: Dataset, task: Task) -> NDArray[Any]:
    if isinstance(task.kind, Regress):
        low, high = task.kind.low, task.kind.high
        numbers = {e.label: _number(e.label, low, high) for e in examples if e.label is not None}
        _check_labels(examples, numbers, f"a number from {low} to {high}")
        values = [UNKNOWN if e.label is None else numbers[e.label] for e in examples]
        return np.array(values, np.float32)
    assert isinstance(task.kind, Classify)
    names = task.kind.labels
    # A label map says all that may stand in the file, besides the names themselves.
    known = {name: index for index, name in enumerate(names)}
    known |= {said: known[name] for said, name in dataset.label_map.items()}
    classes = {e.label: known.get(e.label) for e in examples if e.label is not None}
    written = [f"{said!r} = {name}" for said, name in dataset.label_map.items()]
    _check_labels(examples, classes, ", ".join(written or names))
    found = [UNKNOWN if e.label is None else classes[e.label] for e in examples]
    return np.array(found, np.int64)


def _check_labels(examples: Sequence[TextExample], values: dict[str, Any], allowed: str) -> None:
    wrong = [e for e in examples if e.label is not None and values[e.label] is None]
    if wrong:
        more = f"; {len(wrong) - 1} more rows have a label that is not allowed" if wrong[1:] else ""
        raise DataError(
            f"{wrong[0].where} label={wrong[0].label!r}, allowed: {allowed}{more}\n"
            "  fix: mend the rows, or map what the file says by `label_map` in the data set's entry"
        )


def _number(text: str, low: float, high: float) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and low <= value <= high else None
