"""What tests read of a run's directory, change in that of a model and ask of the model; another
process.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from road_ray.recipes.run_directory.run import Run


def weights(run: Run | Path) -> bytes:
    """The file of the trained model's weights."""
    place = run.directory if isinstance(run, Run) else run
    return (place / "hf" / "model.safetensors").read_bytes()


def plain_logits(model: Path, texts: str | Sequence[str], **options: Any) -> torch.Tensor:
    """The logits of plain transformers for texts in one batch, tokenized with these options."""
    encoded = AutoTokenizer.from_pretrained(model)(
        texts, return_tensors="pt", padding=len(texts) > 1, **options
    )
    encoded.pop("overflow_to_sample_mapping", None)
    with torch.no_grad():
        return AutoModelForSequenceClassification.from_pretrained(model).eval()(**encoded).logits


def edit(path: Path, **fields: object) -> None:
    """Change fields of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def name_labels(model: Path, *names: str) -> None:
    """Rename the labels of a model's head."""
    label2id = {name: number for number, name in enumerate(names)}
    edit(model / "config.json", id2label=dict(enumerate(names)), label2id=label2id)


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run code in another process, from the root of the checkout, and return that."""
    command, options = [sys.executable, "-c", code], {"capture_output": True, "text": True}
    command += map(str, arguments)
    return subprocess.run(command, cwd=Path(__file__).parents[1], timeout=280, **options)
