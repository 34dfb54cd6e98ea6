"""Wrong predictions with their texts, for the pages of reports."""

from collections.abc import Iterable, Sequence
from typing import Any

from road_ray.data.examples import Example, SpanExample
from road_ray.data.task_and_dataset import (
    Choose,
    Kind,
    MultiLabel,
    Regress,
    Span,
    Tag,
    listed_labels,
)
from road_ray.evaluation.squad import raw_scores

_SHOWN = 8  # examples per data set
_AROUND = 160  # characters of context on either side of the labelled answer
_NOTHING = "(no answer)"


def mistakes(pairs: Iterable[tuple[Example, str | Sequence[str]]], kind: Kind) -> dict[str, Any]:
    """Return the number of labelled ``rows`` and of ``wrong`` predictions, and wrong ones as
    ``examples``, sampled evenly from the worst to the mildest.
    """
    cases = [_scored(row, label, kind) for row, label in pairs if row != row.unlabelled()]
    wrong = sorted((case for case in cases if case[0] < 1), key=lambda case: case[0])
    every = max(len(wrong) / _SHOWN, 1.0)
    chosen = [wrong[int(n * every)][1] for n in range(min(_SHOWN, len(wrong)))]
    is_number = isinstance(kind, Regress)
    what = "off by 10% of the range or more" if is_number else "not exactly right"
    return {"rows": len(cases), "wrong": len(wrong), "what": what, "examples": chosen}


def _scored(row: Any, label: Any, kind: Kind) -> tuple[float, dict[str, Any]]:
    """Return how right a prediction is, 1 if it is, and its row; every second piece of ``context``
    is the labelled answer.
    """
    ask, context, tag = " ⟷ ".join(row.texts), [], f"row {row.id}, {row.where.rpartition('/')[2]}"
    if isinstance(kind, Span):
        _, score = raw_scores(row, label)
        ask, context = row.question, _context(row, label)
        tag = "missed" if not label else "invented" if not row.answers else f"F1 {100 * score:.0f}"
        gold, label = row.answers[0].text if row.answers else _NOTHING, label or _NOTHING
    elif isinstance(kind, Tag):
        tagged = zip(row.words, row.tags, label.split(), strict=True)
        wrong = [(word, tag, other) for word, tag, other in tagged if tag != other]
        ask, score = " ".join(row.words), 1 - len(wrong) / max(len(row.words), 1)
        gold = ", ".join(f"{word}: {tag}" for word, tag, _ in wrong)
        label = ", ".join(f"{word}: {other}" for word, _, other in wrong)
    elif isinstance(kind, Regress):
        gap = abs(float(row.label) - float(label)) / (kind.high - kind.low)
        gold, label, score = row.label, f"{float(label):.2f}", 1 - gap if gap >= 0.1 else 1.0
    elif isinstance(kind, MultiLabel):
        own, other = {*listed_labels(row.label, row.where)}, {*label}
        gold, label, score = ", ".join(sorted(own)), ", ".join(sorted(other)), 1 - len(own ^ other)
    elif isinstance(kind, Choose):
        ask, gold, label = row.question, row.choices[row.answer], row.choices[int(label)]
        score = float(gold == label)
    else:
        gold, score = row.label, float(row.label == label)
    return score, {"ask": ask, "context": context, "gold": gold, "predicted": label, "tag": tag}


def _context(row: SpanExample, predicted: str) -> list[str]:
    """Return the text before the answer, the answer, and the text after it. Without an answer,
    return the text around the prediction.
    """
    start, size = max(row.context.find(predicted), 0), 0
    if row.answers:
        start, size = row.answers[0].start, len(row.answers[0].text)
    end = start + size
    before, after = max(start - _AROUND, 0), end + _AROUND
    head = "…" * (before > 0) + row.context[before:start]
    tail = row.context[end:after] + "…" * (after < len(row.context))
    parts = [head, row.context[start:end], tail]
    return parts if size else ["".join(parts)]
