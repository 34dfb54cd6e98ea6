"""Files of predicted answers, as BERT writes them and the official SQuAD script reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from road_ray.evaluation.spans.no_answer_threshold import apply_threshold, odds_of
from road_ray.evaluation.spans.span_decoding import SpanPrediction
from road_ray.system.json_file import write_text_atomic


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
    write_json(directory / "null_odds.json", odds_of(predictions))


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write a JSON file atomically, its text as it is: not escaped to ASCII."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2)
    write_text_atomic(path, text)
