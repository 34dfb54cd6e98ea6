"""Rows per second of `road predict` and of a plain loop: ``predict_speed.py DATA``.

DATA has SST-2 and a vocabulary in their published layouts. The model is a BERT of 4 layers, 256
wide, with random weights; the loop takes batches of 32 in the order of the file. Both write a CSV
file of classes and scores, in turn, in one process; seconds are CPU time.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
)

from road_ray.data import catalog
from road_ray.data.readers.layouts import read_split
from road_ray.data.tokenizer import load_tokenizer
from road_ray.inference.predict_file import predict_file
from road_ray.inference.predictor import load

BATCH, MAX_LENGTH = 32, 128


def prepare(data: Path, place: Path, rows: int) -> None:
    """Write the model and the file of rows."""
    tokenizer = load_tokenizer(data / "vocab" / "bert-base-uncased-vocab.txt")
    torch.manual_seed(0)
    size = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
    config = BertConfig(vocab_size=len(tokenizer), intermediate_size=1024, **size)
    BertForSequenceClassification(config).save_pretrained(place / "model")
    tokenizer.save_pretrained(place / "model")
    examples = read_split(catalog.dataset("sst2"), data, "train")
    with (place / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        for number in range(rows):
            writer.writerow([number, examples[number].texts[0]])  # type: ignore[union-attr]


def ours(place: Path) -> Callable[[Path], None]:
    predictor = load(place / "model", device="cpu")

    def write(output: Path) -> None:
        source, model = str(place / "rows.csv"), str(place / "model")
        predict_file(predictor, source, output, model=model, report_progress=False)

    return write


def plain(place: Path) -> Callable[[Path], None]:
    tokenizer = AutoTokenizer.from_pretrained(place / "model")
    model = AutoModelForSequenceClassification.from_pretrained(place / "model").eval()

    def write(output: Path) -> None:
        with (place / "rows.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        with output.open("w", newline="") as out, torch.inference_mode():
            writer = csv.writer(out)
            for start in range(0, len(rows), BATCH):
                batch = rows[start : start + BATCH]
                inputs = tokenizer(
                    [row["text"] for row in batch],
                    padding=True,
                    truncation=True,
                    max_length=MAX_LENGTH,
                    return_tensors="pt",
                )
                shares = model(**inputs).logits.softmax(-1)
                for row, share in zip(batch, shares.tolist(), strict=True):
                    best = share.index(max(share))
                    writer.writerow([row["id"], model.config.id2label[best], *share])

    return write


def agreement(one: Path, other: Path) -> tuple[int, float]:
    """Return the number of rows with another label, and the largest difference of a score."""
    with one.open(newline="") as mine, other.open(newline="") as theirs:
        pairs = list(zip(csv.DictReader(mine), csv.reader(theirs), strict=True))
    scores = [
        abs(float(ours[f"score_LABEL_{n}"]) - float(theirs[2 + n]))
        for ours, theirs in pairs
        for n in (0, 1)
    ]
    return sum(ours["label"] != theirs[1] for ours, theirs in pairs), max(scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=1)
    told = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        prepare(told.data, place, told.rows)
        lanes = {"road predict": ours(place), "plain loop": plain(place)}
        for number in range(told.rounds):
            speeds = []
            for lane, write in lanes.items():
                wall, cpu = time.perf_counter(), time.process_time()
                write(place / f"{lane.split()[0]}-{number}.csv")
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                speeds.append(told.rows / cpu)
                print(
                    f"{lane}: {cpu:.1f} s of CPU ({wall:.1f} s), {speeds[-1]:.0f} rows/s",
                    flush=True,
                )
            print(f"ratio {speeds[0] / speeds[1]:.2f}")
        other, difference = agreement(place / "road-0.csv", place / "plain-0.csv")
        print(f"rows with another label: {other}; scores at most {difference:.1e} apart")


if __name__ == "__main__":
    main()
