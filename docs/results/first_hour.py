"""Write the files that the new user of ``first_hour.sh`` owns: ``first_hour.py DATA PLACE``."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
STUDENT = """\
init: null
data:
  dataset: films
  batch_size: 32
  epochs: 2
  sets:
    films:
      text: text
      label: labels
      labels: [negative, positive]
      label_map: {"0": negative, "1": positive}
      train: films.csv
      dev_fraction: 0.1
distillation:
  teachers:
"""


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def reviews(data: Path, split: str, number: int) -> list[dict[str, Any]]:
    """Return sentences of SST-2 under a user's own names of columns and labels."""
    with (data / "glue" / "SST-2" / f"{split}.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = random.Random(0).sample(rows, number)
    return [
        {
            "id": f"r{n}",
            "review": row["sentence"].strip(),
            "verdict": ("bad", "good")[int(row["label"])],
        }
        for n, row in enumerate(rows)
    ]


def write_reviews(data: Path, place: Path) -> None:
    write_table(place / "reviews.csv", reviews(data, "train", 300))
    new = [{k: row[k] for k in ("id", "review")} for row in reviews(data, "dev", 200)]
    write_table(place / "new.csv", new)


def write_manual(data: Path, place: Path) -> list[str]:
    """Write some 60 questions in SQuAD's layout; return the contexts of other articles."""
    articles = json.loads((data / "squad" / "train-v2.0.json").read_text("utf-8"))["data"]
    few, questions = [], 0
    for article in articles[20:]:
        kept = article["paragraphs"][:3]
        few.append({"title": article["title"], "paragraphs": kept})
        questions += sum(len(paragraph["qas"]) for paragraph in kept)
        if questions > 60:
            break
    (place / "manual.json").write_text(json.dumps({"version": "own", "data": few}), "utf-8")
    asked = {"question": "Who wrote the first program?"}
    asked["context"] = "Ada Lovelace wrote the first program in 1843, for Babbage's engine."
    (place / "ask.jsonl").write_text(json.dumps(asked) + "\n", "utf-8")
    return [p["context"] for article in articles[:8] for p in article["paragraphs"]]


def write_teachers(place: Path) -> None:
    """Train the three tiny teachers of the examples; write the file of their student."""
    sys.path.insert(0, str(ROOT / "examples"))
    import tiny_teachers

    write_table(place / "films.csv", tiny_teachers.sentences())
    teachers = tiny_teachers.train_teachers(place / "teachers", tiny_teachers.make_tokenizer())
    listed = "".join(f"    - teachers/{path.name}\n" for path in teachers)
    (place / "student.yaml").write_text(STUDENT + listed, "utf-8")


def record_hub(data: Path, place: Path) -> None:
    """Write the cache that `datasets` leaves after it has loaded ``acme/reviews`` from the hub."""
    from datasets import ClassLabel, Dataset
    from datasets.packaged_modules.parquet.parquet import Parquet

    files = {}
    for split, rows in (
        ("train", reviews(data, "train", 300)),
        ("validation", reviews(data, "dev", 200)),
    ):
        table = {"text": [row["review"] for row in rows], "label": [row["verdict"] for row in rows]}
        files[split] = str(place / f"{split}.parquet")
        named = Dataset.from_dict(table).cast_column("label", ClassLabel(names=["bad", "good"]))
        named.to_parquet(files[split])
    cache = place / "cache"
    made = Parquet(cache_dir=str(cache), dataset_name="reviews", hash="0" * 40, data_files=files)
    made.download_and_prepare()
    (cache / "acme___reviews").mkdir()
    made_in = Path(made.cache_dir).parents[1]  # cache/reviews/default-HASH
    shutil.move(made_in, cache / "acme___reviews" / "default")
    for path in files.values():
        os.remove(path)


def main(data: Path, place: Path) -> None:
    for journey in "abcdefg":
        (place / journey).mkdir(parents=True)
    write_reviews(data, place / "a")
    write_reviews(data, place / "c")
    (place / "c" / "notes").mkdir()
    for number, text in enumerate(write_manual(data, place / "b")):
        (place / "c" / "notes" / f"{number}.txt").write_text(text + "\n", "utf-8")
    write_teachers(place / "d")
    shutil.copytree(ROOT / "examples", place / "e" / "examples")
    record_hub(data, place / "g")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
