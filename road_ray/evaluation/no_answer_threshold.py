"""Decision to abstain: the threshold on ``null_odds``, SQuAD's scores with and without it, and the
files of predictions, as BERT writes them and the official SQuAD script reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from road_ray.data.features.examples_and_features import SpanExample
from road_ray.evaluation import squad
from road_ray.evaluation.spans import SpanPrediction
from road_ray.system.files import write_text_atomic


def untuned_threshold(examples: Sequence[SpanExample]) -> float:
    """Return the threshold of ``exact`` and ``f1``: 0 if some question has no answer, else
    infinity, for by the rule of SQuAD 1.1 every question is answered.
    """
    return 0.0 if any(not example.answers for example in examples) else np.inf


def choose_threshold(
    examples: Sequence[SpanExample], predictions: Sequence[SpanPrediction]
) -> float:
    """Return the ``null_odds`` threshold with the best F1 on these (dev) examples.

    As in the official script, unless abstaining everywhere is best: the script then reports 0.0,
    which lets answers of negative odds through; here the threshold is below all odds.
    """
    scores = score(examples, predictions)
    abstaining = 100.0 * sum(not example.answers for example in examples) / len(examples)
    if scores["best_f1"] > abstaining:
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
) -> dict[str, float]:
    """Official SQuAD scores of the predictions, by three ways to decide on "no answer".

    - ``exact``, ``f1``, ``total``, ``HasAns_*``, ``NoAns_*``: at the untuned threshold.
    - ``at_threshold_*``, the same keys, and ``threshold`` itself: at the given threshold, the one
      stored with the model. Honest if it was chosen on other data; absent without a threshold.
    - ``best_exact``, ``best_f1``, ``best_*_thresh``: tuned on these very examples, an upper bound,
      and what papers print for the SQuAD 2.0 dev set.
    """
    texts = {p.id: p.text for p in predictions}
    odds = {p.id: p.null_odds for p in predictions}
    result = squad.evaluate(examples, texts, odds, untuned_threshold(examples))
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
    abstained = np.array([not texts[example.id] for example in examples], dtype=bool)
    unanswerable = np.array([not example.answers for example in examples], dtype=bool)
    hits = int((abstained & unanswerable).sum())
    predicted, total = int(abstained.sum()), int(unanswerable.sum())
    return {
        "no_answer_precision": 100.0 * hits / predicted if predicted else 0.0,
        "no_answer_recall": 100.0 * hits / total if total else 0.0,
        "no_answer_f1": 200.0 * hits / (predicted + total) if predicted + total else 0.0,
        "answerability_accuracy": 100.0 * float((abstained == unanswerable).mean()),
        "no_answer_predicted": predicted,
        "no_answer_total": total,
    }


def write_predictions(
    directory: Path, predictions: Sequence[SpanPrediction], threshold: float
) -> None:
    """Write ``predictions.json``, ``nbest_predictions.json``, ``null_odds.json``, as BERT does.

    The official script reads the first (threshold applied) and the last (as ``--na-prob-file``).
    ``nbest_predictions.json`` holds spans only, without an entry for "no answer".
    """
    columns = ("text", "probability", "start_logit", "end_logit")  # of BERT's file
    listed = {
        p.id: [{name: getattr(candidate, name) for name in columns} for candidate in p.n_best]
        for p in predictions
    }
    write_json(directory / "predictions.json", apply_threshold(predictions, threshold))
    write_json(directory / "nbest_predictions.json", listed)
    write_json(directory / "null_odds.json", {p.id: p.null_odds for p in predictions})


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write a JSON file atomically, its text as it is: not escaped to ASCII."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2)
    write_text_atomic(path, text)
