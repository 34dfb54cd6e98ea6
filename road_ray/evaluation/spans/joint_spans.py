"""Predictions of ELECTRA's joint span head: beams of starts with their ends, and a no-answer
classifier.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Features, SpanExample
from road_ray.evaluation.spans.span_decoding import SpanPrediction, nbest_candidates
from road_ray.evaluation.spans.span_search import Flags, Span, spans_by_question

Beams = Sequence[NDArray[np.float32]]
_ENDS = 20


def best_joint_spans(
    features: Features,
    examples: Sequence[SpanExample],
    beams: Beams,
    *,
    n_best: int = 20,
    max_answer_tokens: int = 30,
) -> list[SpanPrediction]:
    """Return one prediction per example from the head's logits of each row, ``[2 + K, length]``.

    A span's score is log p(start) + log p(end | start), over the 20 best ends of each start.
    ``null_odds`` is the smallest no-answer logit over the windows. If no span is allowed, ``text``
    is empty and ``score`` is 0. Source: google-research/electra, finetune/qa/qa_metrics.py.
    """

    def search(row: int, opening: Flags, closing: Flags) -> tuple[float, list[Span]]:
        logits = np.asarray(beams[row], dtype=np.float64)
        return float(logits[1, 0]), _of_window(row, logits, opening, closing, max_answer_tokens)

    null, spans = spans_by_question(features, len(examples), n_best, search)
    predictions = []
    for example, lowest, best in zip(examples, null, spans, strict=True):
        firsts = {span: float(beams[span.row][0, span.start]) for span in best}
        parts = {span: (first, -span.cost - first) for span, first in firsts.items()}
        options = nbest_candidates(example, best, features, parts)
        text, score = (options[0].text, -best[0].cost) if options else ("", 0.0)
        predictions.append(SpanPrediction(example.id, text, score, lowest, options))
    return predictions


def _of_window(
    row: int, logits_of_row: NDArray[np.float64], opening: Flags, closing: Flags, longest: int
) -> list[Span]:
    """Return the allowed spans in the beams of one window."""
    spans = []
    for ends in logits_of_row[2:]:
        finite = np.flatnonzero(np.isfinite(ends))
        if not len(finite) or not opening[finite[0]]:
            continue
        start = int(finite[0])  # only ends before their start are infinite
        for end in finite[np.argsort(-ends[finite], kind="stable")[:_ENDS]].tolist():
            if closing[end] and end - start < longest:
                spans.append(Span(-float(logits_of_row[0, start] + ends[end]), row, start, end))
    return spans
