"""Answers from the span logits of windows, of the plain head and of ELECTRA's joint head.

Two numbers decide: the best span over the windows of a question, and its null score, that of
position 0. ``null_odds`` is null minus best; the model abstains where it is above a threshold
(``squad.py``).

Source: Devlin et al. 2019, section 4.3; google-research/bert run_squad.py; google-research/electra,
finetune/qa/qa_metrics.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Features, SpanExample

Logits = Sequence[NDArray[np.float32]]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_ENDS = 20  # of each start of the joint head


class Span(NamedTuple):
    """A span of one window. Spans sort best first, ties from the left."""

    cost: float  # -(start logit + end logit)
    row: int
    start: int
    end: int


class Candidate(NamedTuple):
    """A candidate answer; ``probability`` is its share among the candidates of the question, and
    ``start`` its first character in the context.
    """

    text: str
    probability: float
    start_logit: float
    end_logit: float
    start: int = 0


@dataclass(frozen=True)
class SpanPrediction:
    """The best answer (``text``, ``score``) and the odds of no answer.

    If no span is allowed (an empty context), ``text`` is empty. Then the plain head has the null
    score as ``score`` and 0 as ``null_odds``, the joint head 0 as ``score``.
    """

    id: str
    text: str
    score: float
    null_odds: float
    n_best: tuple[Candidate, ...]


def best_spans(
    features: Features,
    examples: Sequence[SpanExample],
    start_logits: Logits,
    end_logits: Logits,
    *,
    n_best: int = 20,
    max_answer_tokens: int = 30,
) -> list[SpanPrediction]:
    """Return one prediction per example, in order; the logits of row ``r`` are ``[lengths[r]]``.

    A span has at most ``max_answer_tokens``. The ``n_best`` spans over all windows are exact (ties:
    first window, leftmost, shortest); of those with equal text the best one is listed.
    """

    def search(row: int, opening: Flags, closing: Flags) -> tuple[float, list[Span]]:
        start = np.asarray(start_logits[row], dtype=np.float64)
        end = np.asarray(end_logits[row], dtype=np.float64)
        found = window_spans(
            row, start, end, opening, closing, n_best=n_best, longest=max_answer_tokens
        )
        return float(start[0] + end[0]), found

    predictions = []
    for example, null, spans in _by_question(features, examples, n_best, search):
        parts = [
            (float(start_logits[row][start]), float(end_logits[row][end]))
            for _, row, start, end in spans
        ]
        options = _candidates(example, spans, parts, features)
        text, score = (options[0].text, -spans[0].cost) if options else ("", null)
        odds = null - score if options else 0.0
        predictions.append(SpanPrediction(example.id, text, score, odds, options))
    return predictions


def best_joint_spans(
    features: Features,
    examples: Sequence[SpanExample],
    beams: Logits,
    *,
    n_best: int = 20,
    max_answer_tokens: int = 30,
) -> list[SpanPrediction]:
    """Return one prediction per example from the joint head's logits of each row, ``[2 + K,
    length]``: starts, the no-answer classifier, and the ends given each of K starts.

    A span's score is log p(start) + log p(end | start), over the 20 best ends of each start.
    ``null_odds`` is the smallest no-answer logit over the windows.
    """

    def search(row: int, opening: Flags, closing: Flags) -> tuple[float, list[Span]]:
        logits = np.asarray(beams[row], dtype=np.float64)
        spans = []
        for ends in logits[2:]:
            finite = np.flatnonzero(np.isfinite(ends))
            if not len(finite) or not opening[finite[0]]:
                continue
            start = int(finite[0])  # only ends before their start are infinite
            for end in finite[np.argsort(-ends[finite], kind="stable")[:_ENDS]].tolist():
                if closing[end] and end - start < max_answer_tokens:
                    spans.append(Span(-float(logits[0, start] + ends[end]), row, start, end))
        return float(logits[1, 0]), spans

    predictions = []
    for example, null, spans in _by_question(features, examples, n_best, search):
        starts = [float(beams[span.row][0, span.start]) for span in spans]
        parts = [(first, -span.cost - first) for span, first in zip(spans, starts, strict=True)]
        options = _candidates(example, spans, parts, features)
        text, score = (options[0].text, -spans[0].cost) if options else ("", 0.0)
        predictions.append(SpanPrediction(example.id, text, score, null, options))
    return predictions


def window_spans(
    row: int,
    start: Floats,
    end: Floats,
    opening: Flags,
    closing: Flags,
    *,
    n_best: int,
    longest: int,
) -> list[Span]:
    """Return the ``n_best`` spans of a window, ranked; all arrays are ``[L]``.

    A span starts on an ``opening`` token, ends on a ``closing`` one at or after it, and has at most
    ``longest`` tokens. Equal to a search over all pairs, ties included (leftmost, then shortest).
    """
    allowed = np.flatnonzero(closing)
    if not len(allowed) or not opening.any():
        return []
    low, high = int(allowed[0]), int(allowed[-1]) + 1
    starts = np.where(opening, start, -np.inf)[low:high]
    ends = np.full(high - low + longest - 1, -np.inf)
    ends[: high - low] = np.where(closing, end, -np.inf)[low:high]
    reach = sliding_window_view(ends, longest)  # [i, k]: end logit of the k + 1 tokens from i
    # The n best spans start at the n best starts, ranked by the best span of each: only those
    # starts are expanded. Stable sorts keep ties in order.
    best_of_start = starts + reach.max(axis=1)
    chosen = np.sort(np.argsort(-best_of_start, kind="stable")[:n_best])
    scores = (starts[chosen, None] + reach[chosen]).ravel()
    top = np.argsort(-scores, kind="stable")[:n_best]
    top = top[np.isfinite(scores[top])]
    firsts = low + chosen[top // longest]
    lasts = firsts + top % longest
    spans = zip((-scores[top]).tolist(), firsts.tolist(), lasts.tolist(), strict=True)
    return [Span(cost, row, first, last) for cost, first, last in spans]


def _by_question(
    features: Features,
    examples: Sequence[SpanExample],
    n_best: int,
    search: Callable[[int, Flags, Flags], tuple[float, list[Span]]],
) -> Iterator[tuple[SpanExample, float, list[Span]]]:
    """Yield each question, its lowest null score and its ``n_best`` spans over all windows.

    ``search(row, opening, closing)`` returns those of a window. A span starts and ends on context
    tokens, and starts where its window has maximal context, so that no span counts in two windows.
    """
    offsets, max_context = features.offsets, features.max_context
    assert offsets is not None
    assert max_context is not None
    nulls, spans = [np.inf] * len(examples), [list[Span]() for _ in examples]
    bounds = features.bounds.tolist()
    for row, question in enumerate(features.example.tolist()):
        tokens = slice(bounds[row], bounds[row + 1])
        context = offsets[tokens, 0] >= 0
        null, found = search(row, context & max_context[tokens], context)
        nulls[question] = min(nulls[question], null)
        spans[question] += found
    for example, null, found in zip(examples, nulls, spans, strict=True):
        yield example, null, sorted(found)[:n_best]


def _candidates(
    example: SpanExample,
    spans: Sequence[Span],
    parts: Sequence[tuple[float, float]],
    features: Features,
) -> tuple[Candidate, ...]:
    """Return ranked spans as texts, each text once; ``parts`` are the scores of start and end."""
    if not spans:
        return ()
    assert features.offsets is not None
    best: dict[str, tuple[float, tuple[float, float], int]] = {}
    for (cost, row, start, end), logits in zip(spans, parts, strict=True):
        first, last = features.bounds[row] + start, features.bounds[row] + end
        begin, stop = int(features.offsets[first, 0]), int(features.offsets[last, 1])
        best.setdefault(example.context[begin:stop], (-cost, logits, begin))
    scores = np.array([score for score, _, _ in best.values()])
    shares = np.exp(scores - scores[0])
    shares /= shares.sum()
    return tuple(
        Candidate(text, float(share), *logits, begin)
        for (text, (_, logits, begin)), share in zip(best.items(), shares, strict=True)
    )
