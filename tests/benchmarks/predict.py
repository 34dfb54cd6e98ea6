"""`road predict` against a plain loop over the model of ``transformers``: batches of 32 rows in the
order of the file, padded to the longest.
"""

import csv
import tempfile
from dataclasses import dataclass, replace
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from road_ray.data import catalog
from road_ray.data.readers.layouts import read_split
from road_ray.inference.load_model import load
from road_ray.inference.predict_file import predict_file
from tests.benchmarks import shapes
from tests.benchmarks.finetuning import Study
from tests.benchmarks.plan import Plan, Row, race_row
from tests.benchmarks.race import gated

_TASK, _PLAIN_BATCH, _MAX_LENGTH = "sentiment", 32, 128


@dataclass(frozen=True)
class Work:
    """What a contestant is told: the model, the rows, the precision of ours."""

    model: Path
    rows: Path
    precision: str = "fp32"


def predict(plan: Plan) -> list[Row]:
    """Rows of a CSV file to a CSV file of classes and scores, rows/s."""
    study = replace(plan.predicting, encoder=plan.tiny.encoder)
    with tempfile.TemporaryDirectory() as place:
        work = Work(*_prepared(study, Path(place)))
        lanes = {
            "fp32": (ours, work),
            "bf16": (ours, replace(work, precision="bf16")),
            "plain": (plain, work),
        }
        timings = plan.race(lanes, repeats=plan.few_repeats, warmup=1)
    peer = f"plain (fp32), {study.examples:,} rows of {study.dataset}"
    theirs, work = timings["plain"], ("rows/s", study.examples)
    return [
        race_row("predict", peer, name, (ours, theirs), *work, ours.median)
        for name, ours in timings.items()
        if ours is not theirs
    ]


def _prepared(study: Study, place: Path) -> tuple[Path, Path]:
    """Write a model with random weights, and a CSV file of the study's sentences."""
    tokenizer = study.tokenizer()
    model = shapes.model_of(study.encoder, len(tokenizer), catalog.task(_TASK))
    model.export(place / "model", _TASK)
    tokenizer.save_pretrained(place / "model")
    examples = read_split(catalog.dataset(study.dataset), study.place, "train")
    with (place / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        for number in range(study.examples):
            writer.writerow([number, examples[number % len(examples)].texts[0]])
    return place / "model", place / "rows.csv"


def ours(work: Work, connection: Connection) -> None:
    predictor = load(work.model, device="cpu", precision=work.precision)
    with tempfile.TemporaryDirectory() as place:
        for number in gated(connection, count()):  # a new file each time
            predict_file(
                predictor, str(work.rows), Path(place) / f"{number}.csv", model=str(work.model)
            )


def plain(work: Work, connection: Connection) -> None:
    tokenizer = AutoTokenizer.from_pretrained(work.model)
    model = AutoModelForSequenceClassification.from_pretrained(work.model).eval()
    with tempfile.TemporaryFile("w", newline="") as out, torch.inference_mode():
        writer = csv.writer(out)
        for _ in gated(connection, [None]):
            with work.rows.open(newline="") as file:
                rows = list(csv.DictReader(file))
            for start in range(0, len(rows), _PLAIN_BATCH):
                batch = rows[start : start + _PLAIN_BATCH]
                inputs = tokenizer(
                    [row["text"] for row in batch],
                    padding=True,
                    truncation=True,
                    max_length=_MAX_LENGTH,
                    return_tensors="pt",
                )
                shares = model(**inputs).logits.softmax(-1)
                for row, share in zip(batch, shares.tolist(), strict=True):
                    best = share.index(max(share))
                    writer.writerow([row["id"], model.config.id2label[best], *share])
