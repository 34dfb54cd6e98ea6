"""What tests read of a run's directory, and change in that of a model."""

from __future__ import annotations

import json
from pathlib import Path

from road_ray.recipes.run_directory.run import Run


def weights(run: Run | Path) -> bytes:
    """The file of the trained model's weights."""
    place = run.directory if isinstance(run, Run) else run
    return (place / "hf" / "model.safetensors").read_bytes()


def name_labels(model: Path, *names: str) -> None:
    """Rename the labels of a model's head."""
    path = model / "config.json"
    label2id = {name: number for number, name in enumerate(names)}
    named = {"id2label": dict(enumerate(names)), "label2id": label2id}
    path.write_text(json.dumps(json.loads(path.read_text()) | named))
