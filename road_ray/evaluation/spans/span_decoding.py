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
    Flags,
    Logits,
    Span,
    span_columns,
    spans_by_question,
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

    nulls, ranked = spans_by_question(features, len(examples), n_best, search)
    predictions = []
    for example, null, spans in zip(examples, nulls, ranked, strict=True):
        parts = {
            span: (
                float(start_logits[span.row][span.start]),
                float(end_logits[span.row][span.end]),
            )
            for span in spans
        }
        options = nbest_candidates(example, spans, features, parts)
        text, score = (options[0].text, -spans[0].cost) if options else ("", null)
        odds = null - score if options else 0.0
        predictions.append(SpanPrediction(example.id, text, score, odds, options))
    return predictions


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
