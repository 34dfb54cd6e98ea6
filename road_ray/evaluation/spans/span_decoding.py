"""Answers from start and end logits of windows.

Two numbers decide: the best span over the windows of a question (start + end logit), and its null
score, the smallest start + end logit at position 0. ``null_odds`` is null minus best; the model
abstains where it is above a threshold (``no_answer_threshold.py``).

Source: Devlin et al. 2019, section 4.3; google-research/bert run_squad.py; google-research/electra.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from road_ray.data.features.examples_and_features import Features, SpanExample
from road_ray.evaluation.spans.span_search import (
    Logits,
    Span,
    span_columns,
    window_spans,
)


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

    If no span is allowed (an empty context), ``text`` is empty, ``score`` is the null score and
    ``null_odds`` is 0.
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

    A span starts and ends on context tokens, has at most ``max_answer_tokens``, and starts where
    its window has maximal context, so that no span counts in two windows. The ``n_best`` spans over
    all windows are exact (ties: first window, leftmost, shortest); of those with equal text the
    best one is listed.
    """
    offsets, max_context = span_columns(features)
    spans: list[list[Span]] = [[] for _ in examples]
    null = np.full(len(examples), np.inf)
    bounds = features.bounds.tolist()
    for row, index in enumerate(features.example.tolist()):
        tokens = slice(bounds[row], bounds[row + 1])
        context = offsets[tokens, 0] >= 0
        start = np.asarray(start_logits[row], dtype=np.float64)
        end = np.asarray(end_logits[row], dtype=np.float64)
        null[index] = min(null[index], start[0] + end[0])
        spans[index] += window_spans(
            row,
            start,
            end,
            opening=context & max_context[tokens],
            closing=context,
            n_best=n_best,
            longest=max_answer_tokens,
        )
    ranked = [sorted(candidates)[:n_best] for candidates in spans]
    return [
        _prediction(example, float(lowest), best, features, start_logits, end_logits)
        for example, lowest, best in zip(examples, null, ranked, strict=True)
    ]


def _prediction(
    example: SpanExample,
    null: float,
    spans: list[Span],
    features: Features,
    start_logits: Logits,
    end_logits: Logits,
) -> SpanPrediction:
    parts = {
        span: (
            float(start_logits[span.row][span.start]),
            float(end_logits[span.row][span.end]),
        )
        for span in spans
    }
    candidates = nbest_candidates(example, spans, features, parts)
    if not candidates:
        return SpanPrediction(example.id, "", null, 0.0, ())
    best = -spans[0].cost
    return SpanPrediction(example.id, candidates[0].text, best, null - best, candidates)


def nbest_candidates(
    example: SpanExample,
    spans: Sequence[Span],
    features: Features,
    parts: Mapping[Span, tuple[float, float]],
) -> tuple[Candidate, ...]:
    """Return ranked spans as texts, each text once; ``parts`` are the scores of start and end."""
    if not spans:
        return ()
    offsets, _ = span_columns(features)
    _, rows, starts, ends = zip(*spans, strict=True)
    base = features.bounds[np.array(rows)]
    begins, stops = offsets[base + starts, 0].tolist(), offsets[base + ends, 1].tolist()
    distinct: dict[str, Span] = {}
    for span, begin, stop in zip(spans, begins, stops, strict=True):
        distinct.setdefault(example.context[begin:stop], span)
    scores = -np.array([span.cost for span in distinct.values()])
    shares = np.exp(scores - scores[0])
    shares /= shares.sum()
    return tuple(
        Candidate(text, float(share), *parts[span], start=int(offsets[place, 0]))
        for (text, span), share in zip(distinct.items(), shares, strict=True)
        for place in [features.bounds[span.row] + span.start]
    )
