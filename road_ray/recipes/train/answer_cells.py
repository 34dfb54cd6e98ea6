"""Cells of a file of answers, as the logits that a model would give.

The answer of a text, pair or question with choices is one logit a label, that of a sentence one a
label for each word. The answer of a question about a context is a distribution over spans, which is
kept as the tokens of a teacher that ``transfer_spans`` reads: each span is a token.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from road_ray.data.load_split import Split
from road_ray.data.readers.tables import Row
from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    MultiLabel,
    Regress,
    Span,
    Tag,
    label_text,
    listed_labels,
    plain_label,
)
from road_ray.errors import DataError, did_you_mean, shorten
from road_ray.models.load_weights import LabelMap, label_order, names_for

LEAST_PROBABILITY = 1e-8  # of which the logarithm is taken where a file says 0
_TOLERANCE = 1e-3
# Columns of each label, the most exact first, and the objects that JSONL and Parquet have instead.
_LOGIT, _LOGPROB = "logit_", "logprob_"
_PREFIXES = {_LOGIT: "logits", _LOGPROB: "logprobs", "probability_": "probabilities"}
_PREFIXES |= {"score_": "scores"}
_NUMBER = ("value", "label")  # columns of a regression
_SHARES = ("probability", "score", "confidence")  # of the answer to a question
_FORM = (
    "columns logit_LABEL, logprob_LABEL, probability_LABEL or score_LABEL of every label, or label "
    "(a list labels where a row has several, or tags of words) with confidence; value for numbers; "
    "n_best, or answer with start and score, for questions"
)

Texts = tuple[str, ...]
Answer = Sequence[float]
Reader = Callable[[Row, str, Texts], Answer | None]
"""Returns the answer of a row at a place (``file:line``) to the training row with these texts; None
if its cells are empty."""
_CellReader = Callable[[Row, str], Answer | None]


def flat(row: Row) -> dict[str, Any]:
    """Return a row whose objects of values by label are columns."""
    cells = {str(name): cell for name, cell in row.items()}
    for prefix, name in _PREFIXES.items():
        if isinstance(cells.get(name), Mapping):
            cells |= {f"{prefix}{label}": cell for label, cell in cells.pop(name).items()}
    return cells


def reader_of(
    where: str, place: Path, columns: Collection[str], split: Split, label_map: LabelMap | None
) -> Reader:
    """Return the function that reads the answer of a row with these columns. Raises ``DataError``
    if they have none.
    """
    kind, dataset = split.task.kind, split.dataset
    read: _CellReader | None = None
    if isinstance(kind, Span) and {"n_best", "answer"} & {*columns}:
        return _of_question
    if isinstance(kind, Regress) and (column := next(filter(columns.__contains__, _NUMBER), None)):
        read = partial(_numbers, _LOGIT, [column])
    elif isinstance(kind, Choose) and {"choice", *_PREFIXES.values()} & {*columns}:
        read = partial(_of_choices, [str(number) for number in range(kind.choices)])
    elif isinstance(kind, Classify | MultiLabel | Tag):
        several = isinstance(kind, MultiLabel)
        of_file = {n: x for n, x in dataset.label_map.items() if n not in kind.labels}
        renamed = {**of_file, **names_for(label_map, place)}
        named = ("tags" if isinstance(kind, Tag) else "labels" if several else "label") in columns
        prefix = next((x for x in _PREFIXES if any(c.startswith(x) for c in columns)), None)
        if prefix is not None:
            given = [column for column in columns if column.startswith(prefix)]
            labels = dict(enumerate(column.removeprefix(prefix) for column in given))
            order = label_order(place, labels, split.task, renamed, "distillation.label_map")
            ordered = [given[n] for n in order or range(len(given))]
            read = partial(_numbers, prefix, ordered, several=several)
        elif named:
            separator = dataset.columns.separator
            read = partial(_of_labels, kind.labels, renamed, separator, several=several)
        elif several and {*kind.labels} <= {*columns}:  # columns of 0 and 1
            read = partial(_numbers, "", kind.labels, several=True)
    if read is None and {*_PREFIXES.values()} & {*columns}:
        read = _of_null
    if read is None:
        raise DataError(f"{where}: no answer in columns {', '.join(columns)}\n  allowed: {_FORM}")
    if isinstance(kind, Tag):
        return partial(_of_words, read)
    return lambda row, where, _: read(row, where)


def _of_null(row: Row, where: str) -> None:
    """Return None for a row whose object of values by label is null."""
    if any(row.get(name) is not None for name in _PREFIXES.values()):
        raise DataError(f"{where}: no answer in columns {', '.join(row)}\n  allowed: {_FORM}")


def _numbers(
    prefix: str, columns: Sequence[str], row: Row, where: str, several: bool = False
) -> Answer | None:
    """Return the logits in columns of logits, log-probabilities or probabilities, which are the
    labels' own where a row may have ``several``.
    """
    cells = [row[column] for column in columns]
    if all(cell in (None, "") for cell in cells):
        return None
    try:
        values = [float(cell) for cell in cells]
    except (TypeError, ValueError):
        values = [math.nan]
    least = math.log(LEAST_PROBABILITY)
    if prefix == _LOGIT:
        valid, allowed = all(map(math.isfinite, values)), "finite numbers"
    elif several:
        shares = [math.exp(min(value, 1.0)) if prefix == _LOGPROB else value for value in values]
        valid, allowed = all(0 <= x <= 1 + _TOLERANCE for x in shares), "probabilities from 0 to 1"
        bounded = [min(max(x, LEAST_PROBABILITY), 1 - LEAST_PROBABILITY) for x in shares]
        logits = [math.log(x) - math.log1p(-x) for x in bounded]
    elif prefix == _LOGPROB:
        valid, allowed = all(value <= _TOLERANCE for value in values), "numbers up to 0"
        logits = [max(value, least) for value in values]
    else:
        valid = min(values) >= 0 and abs(sum(values) - 1) <= _TOLERANCE  # false for NaN
        allowed = "probabilities whose sum is 1 (within 0.001)"
        logits = [math.log(max(value, LEAST_PROBABILITY)) for value in values] if valid else []
    if not valid:
        seen = dict(zip(columns, cells, strict=True))
        raise DataError(f"{where}: {seen}\n  allowed: {allowed}, or all cells empty")
    return values if prefix == _LOGIT else logits


def _of_choices(numbers: Sequence[str], row: Row, where: str) -> Answer | None:
    """Return the logits of a list of one value a choice, or of the number of a choice with a
    confidence.
    """
    for prefix, name in _PREFIXES.items():
        if row.get(name) not in (None, ""):
            values = _listed(row[name], len(numbers), where, name, "choice")
            return _numbers(prefix, numbers, dict(zip(numbers, values, strict=True)), where)
    return _of_labels(numbers, {}, None, {**row, "label": row.get("choice")}, where)


def _of_words(read: _CellReader, row: Row, where: str, words: Texts) -> Answer | None:
    """Return the logits of all words of a sentence, whose cells are lists with one entry a word."""
    cells = {
        name: cell
        for name, cell in row.items()
        if name in ("tags", "confidence") or name.startswith(tuple(_PREFIXES))
    }
    if all(cell in (None, "") for cell in cells.values()):
        return None
    lists = {name: _listed(x, len(words), where, name, "word") for name, x in cells.items()}
    logits: list[float] = []
    for number, entries in enumerate(zip(*lists.values(), strict=True), 1):
        of_word = dict(zip(lists, entries, strict=True))
        answer = read(of_word | {"label": of_word.get("tags")}, f"{where}: word {number}")
        if answer is None:
            raise DataError(
                f"{where}: word {number} has no answer\n  allowed: answers to all words of a "
                "sentence, or empty cells"
            )
        logits += answer
    return logits


def _listed(cell: object, count: int, where: str, name: str, each: str) -> list[Any]:
    """Return the list in a cell, which CSV has as JSON or, of words, with spaces. One confidence is
    that of all.
    """
    listed = cell
    if isinstance(cell, str):
        with suppress(ValueError):
            listed = json.loads(cell) if cell.lstrip().startswith("[") else cell.split()
    elif isinstance(cell, int | float):
        listed = [cell]
    if name == "confidence" and isinstance(listed, list) and len(listed) == 1:
        listed = listed * count
    if not isinstance(listed, list) or len(listed) != count:
        raise DataError(
            f"{where}: {name} = {shorten(repr(cell))}\n  allowed: a list of {count}, one a {each}"
        )
    return listed


def _of_question(row: Row, where: str, texts: Texts) -> Answer | None:
    """Return the answers of a question as ``[N + 2, 3]``, flat: first character in the text, last
    one (exclusive), and log-probability. The first is "no answer", the last has the least
    probability; both have the characters -1.

    Without ``no_answer_score``, "no answer" has what the probabilities lack of 1; with it, the
    answers share the rest.
    """
    listed: Any = row.get("n_best")
    if listed in (None, ""):
        empty = row.get("answer") == "" and "" in [row.get(name) for name in _SHARES]
        if row.get("answer") is None or empty:
            return None
        listed = [row]
    elif isinstance(listed, str):
        with suppress(ValueError):
            listed = json.loads(listed)
    if not isinstance(listed, list) or not all(isinstance(entry, Mapping) for entry in listed):
        raise DataError(
            f"{where}: n_best = {shorten(repr(listed))}\n"
            "  allowed: a list of objects with answer (or text), probability (or score) and start"
        )
    spans = [_span(entry, where, texts[1]) for entry in listed]
    shares = [_share(entry, _SHARES, 1.0, where) for entry in listed]
    answers = [(*span, share) for span, share in zip(spans, shares, strict=True) if span]
    total = sum(share for _, _, share in answers)
    none = _share(row, ["no_answer_score"], math.nan, where)
    if (seen := max(sum(shares), total + none)) > 1 + _TOLERANCE:  # of NaN, the first
        raise DataError(
            f"{where}: the probabilities of answers and no answer have the sum {seen:g}\n"
            "  allowed: at most 1 (within 0.001)"
        )
    scale = (1 - none) / total if total and none >= 0 else 1.0
    none = none if total and none >= 0 else 1 - total
    tokens = [(-1, -1, none), *((i, j, scale * share) for i, j, share in answers), (-1, -1, 0.0)]
    return [x for i, j, p in tokens for x in (i, j, math.log(max(p, LEAST_PROBABILITY)))]


def _span(entry: Row, where: str, context: str) -> tuple[int, int] | None:
    """Return the characters of an answer without spaces at its ends; None for an empty answer."""
    text, start = entry.get("answer", entry.get("text")), entry.get("start")
    if text == "":
        return None
    plain = str(text).strip()
    try:
        begin = context.find(str(text)) if start in (None, "") else int(start)
    except (TypeError, ValueError):
        begin = -1
    if begin < 0 or not plain or context[begin : begin + len(str(text))] != text:
        place = "nowhere in" if start in (None, "") else f"not at character {start} of"
        raise DataError(
            f"{where}: answer {shorten(repr(text))} is {place} the context\n"
            "  allowed: text of the context with its first character, from 0, as start; without "
            "one, the first such text; an empty text for no answer"
        )
    begin += str(text).index(plain)
    return begin, begin + len(plain)


def _share(row: Row, names: Collection[str], default: float, where: str) -> float:
    """Return the probability in the first of these columns that a row has."""
    name = next((name for name in names if row.get(name) not in (None, "")), None)
    if name is None:
        return default
    try:
        share = float(row[name])
    except (TypeError, ValueError):
        share = math.nan
    if not 0 <= share <= 1 + _TOLERANCE:
        raise DataError(f"{where}: {name} = {row[name]!r}\n  allowed: 0 to 1")
    return min(share, 1.0)


def _of_labels(
    labels: Sequence[str],
    renamed: Mapping[str, str],
    separator: str | None,
    row: Row,
    where: str,
    several: bool = False,
) -> Answer | None:
    """Return the logits of a label with a confidence, the rest of which the other labels share; of
    a list of ``several``, the confidence is the probability of each of them, and of no other label.
    """
    given = row["labels" if several else "label"]
    if given in (None, ""):
        return None
    listed = [given]
    if several:
        if isinstance(given, str) and separator and not given.startswith("["):
            given = [part for cell in given.split(separator) if (part := cell.strip())]
        listed = listed_labels(label_text(given), where)
    confidence = _share(row, ["confidence"], 1.0, where)
    others = 1 if several else max(1, len(labels) - 1)
    shares = dict.fromkeys(labels, (1 - confidence) / others)
    shares |= {_known(labels, renamed, name, where): confidence for name in listed}
    return _numbers("", labels, shares, where, several=several)


@cache
def _by_name(labels: tuple[str, ...]) -> dict[str, str]:
    return {plain_label(label): label for label in labels} | {label: label for label in labels}


def _known(labels: Sequence[str], renamed: Mapping[str, str], given: object, where: str) -> str:
    """Return the label of the task that a cell names."""
    name, named = label_text(given).strip(), _by_name(tuple(labels))
    name = renamed.get(name, name)
    label = named.get(name) or named.get(plain_label(name))
    if label is None:
        raise DataError(
            f"{where}: label = {given!r}{did_you_mean(name, labels)}\n"
            f"  allowed: {', '.join(labels)}, or names that distillation.label_map maps to them"
        )
    return label
