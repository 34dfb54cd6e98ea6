"""Answers from start and end logits of windows, and the decision to abstain.

Two numbers decide: the best span over the windows of a question (start + end logit), and its null
score, the smallest start + end logit at position 0. ``null_odds`` is null minus best; above a
threshold the model abstains. Every score is a percentage (0 to 100).

Source: Devlin et al. 2019, section 4.3; google-research/bert run_squad.py; google-research/electra.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from road_ray.data.features.types import Features, SpanExample
from road_ray.evaluation import squad
from road_ray.evaluation.span_search import (
    Logits,
    Span,
    check_covered,
    check_finite,
    check_rows,
    span_columns,
    window_spans,
)
from road_ray.system.json_file import write_text_atomic

UNTUNED_THRESHOLD = 0.0


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
    check_rows(features, "start_logits", start_logits)
    check_rows(features, "end_logits", end_logits)
    spans: list[list[Span]] = [[] for _ in examples]
    null = np.full(len(examples), np.inf)
    bounds = features.bounds.tolist()
    for row, index in enumerate(features.example.tolist()):
        tokens = slice(bounds[row], bounds[row + 1])
        context = offsets[tokens, 0] >= 0
        start = np.asarray(start_logits[row], dtype=np.float64)
        end = np.asarray(end_logits[row], dtype=np.float64)
        check_finite(start, end, context, row, examples[index])
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
    check_covered(null, examples)
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


def choose_threshold(
    examples: Sequence[SpanExample], predictions: Sequence[SpanPrediction]
) -> float:
    """Return the ``null_odds`` threshold with the best F1 on these (dev) examples.

    As in the official script, unless abstaining everywhere is best: the script then reports 0.0,
    which lets answers of negative odds through; here the threshold is below all odds.
    """
    scores = squad.evaluate(examples, _texts(predictions), _odds(predictions), UNTUNED_THRESHOLD)
    silent = 100.0 * sum(not example.answers for example in examples) / len(examples)
    if scores["best_f1"] > silent:
        return scores["best_f1_thresh"]
    below = np.nextafter(min(p.null_odds for p in predictions), -np.inf)
    return min(float(below), 0.0)


def apply_threshold(predictions: Sequence[SpanPrediction], threshold: float) -> dict[str, str]:
    """Return ``{id: text}``, with an empty text where ``null_odds`` is above ``threshold``."""
    return {p.id: "" if p.null_odds > threshold else p.text for p in predictions}


def score(
    examples: Sequence[SpanExample],
    predictions: Sequence[SpanPrediction],
    threshold: float | None = None,
    *,
    abstain: bool | None = None,
) -> dict[str, float]:
    """Official SQuAD scores of the predictions, by three ways to decide on "no answer".

    - ``exact``, ``f1``, ``total``, ``HasAns_*``, ``NoAns_*``: untuned. With ``abstain`` the
      threshold is 0; without, every question is answered, the rule of SQuAD 1.1. ``None`` abstains
      if any of the examples has no answer.
    - ``at_threshold_*``, the same keys, and ``threshold`` itself: at the given threshold, the one
      stored with the model. Honest if it was chosen on other data; absent without a threshold.
    - ``best_exact``, ``best_f1``, ``best_*_thresh``: tuned on these very examples, an upper bound,
      and what papers print for the SQuAD 2.0 dev set.
    """
    if abstain is None:
        abstain = any(not example.answers for example in examples)
    texts, odds = _texts(predictions), _odds(predictions)
    result = squad.evaluate(examples, texts, odds, UNTUNED_THRESHOLD if abstain else np.inf)
    if threshold is not None:
        tuned = squad.evaluate(examples, texts, odds, threshold)
        result["threshold"] = threshold
        result |= {f"at_threshold_{k}": v for k, v in tuned.items() if not k.startswith("best_")}
    return result


def answerability(
    examples: Sequence[SpanExample], predictions: Sequence[SpanPrediction], threshold: float
) -> dict[str, float]:
    """Return precision, recall, F1 and accuracy of abstaining at ``threshold``.

    A ratio without cases (no abstention, or nothing to abstain from) is 0; the two counts tell them
    apart.
    """
    texts = apply_threshold(predictions, threshold)
    refused = np.array([not texts[example.id] for example in examples], dtype=bool)
    barren = np.array([not example.answers for example in examples], dtype=bool)
    hits = int((refused & barren).sum())
    n_refused, n_barren = int(refused.sum()), int(barren.sum())
    return {
        "no_answer_precision": 100.0 * hits / n_refused if n_refused else 0.0,
        "no_answer_recall": 100.0 * hits / n_barren if n_barren else 0.0,
        "no_answer_f1": 200.0 * hits / (n_refused + n_barren) if n_refused + n_barren else 0.0,
        "answerability_accuracy": 100.0 * float((refused == barren).mean()),
        "no_answer_predicted": n_refused,
        "no_answer_total": n_barren,
    }


def write_predictions(
    directory: Path, predictions: Sequence[SpanPrediction], threshold: float
) -> None:
    """Write ``predictions.json``, ``nbest_predictions.json``, ``null_odds.json``, as BERT does.

    The official script reads the first (threshold applied) and the last (as ``--na-prob-file``).
    ``nbest_predictions.json`` holds spans only, without an entry for "no answer".
    """
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "predictions.json", apply_threshold(predictions, threshold))
    columns = ("text", "probability", "start_logit", "end_logit")  # of BERT's file
    listed = {
        p.id: [{name: getattr(candidate, name) for name in columns} for candidate in p.n_best]
        for p in predictions
    }
    write_json(directory / "nbest_predictions.json", listed)
    write_json(directory / "null_odds.json", _odds(predictions))


def _texts(predictions: Sequence[SpanPrediction]) -> dict[str, str]:
    return {p.id: p.text for p in predictions}


def _odds(predictions: Sequence[SpanPrediction]) -> dict[str, float]:
    return {p.id: p.null_odds for p in predictions}


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write a JSON file atomically, its text as it is: not escaped to ASCII."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2)
    write_text_atomic(path, text)
