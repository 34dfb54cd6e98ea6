"""Write the files that the new user of ``first_hour.sh`` owns: ``first_hour.py DATA PLACE``."""

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


def write_notes(data: Path, place: Path) -> None:
    """Write sentences of CoNLL-2003 with the kinds of names in them, any number of labels."""

    def sentences(split: str) -> list[dict[str, Any]]:
        blocks = (data / "conll2003" / f"eng.{split}").read_text("utf-8").split("\n\n")
        rows = []
        for block in blocks:
            words = [line.split() for line in block.splitlines() if line.strip()]
            kinds = {word[-1].rpartition("-")[2] for word in words} - {"O"}
            if len(words) > 4:
                rows.append({"text": " ".join(w[0] for w in words), "labels": sorted(kinds)})
        return rows

    def write(name: str, rows: list[dict[str, Any]]) -> None:
        (place / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    write("notes.jsonl", sentences("train")[:1000])
    write("new.jsonl", [{"text": row["text"]} for row in sentences("testa")[:100]])


def write_llm(place: Path) -> None:
    """Write the films, and the prompt of the tiny causal model."""
    import tiny_llm
    import tiny_teachers

    write_table(place / "films.csv", tiny_teachers.sentences())
    (place / "prompt.txt").write_text(tiny_llm.PROMPT, "utf-8")
    (place / "student.yaml").write_text(STUDENT + "    - answers.csv\n", "utf-8")


def write_decoder(place: Path) -> None:
    """Train a GPT-2 with a classification head on the films, saved as published ones are."""
    import tiny_teachers
    import torch
    from transformers import GPT2Config, GPT2ForSequenceClassification

    tokenizer, rows = tiny_teachers.make_tokenizer(), tiny_teachers.sentences()
    torch.manual_seed(0)
    size = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64, "pad_token_id": 0}
    size |= {"bos_token_id": None, "eos_token_id": tokenizer.sep_token_id} | tiny_teachers.NAMES
    model = GPT2ForSequenceClassification(GPT2Config(vocab_size=len(tokenizer), **size))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(60):
        part = rows[step % 8 :: 8]
        batch = tokenizer([row["text"] for row in part], padding=True, return_tensors="pt")
        batch.pop("token_type_ids", None)
        labels = torch.tensor([row["labels"] for row in part])
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(place / "decoder")
    tokenizer.save_pretrained(place / "decoder")
    write_table(place / "films.csv", rows)
    (place / "student.yaml").write_text(STUDENT + "    - decoder\n", "utf-8")


def write_wrong_labels(data: Path, place: Path) -> None:
    """Write 600 reviews, a tenth of them with the other label."""
    rows, other = reviews(data, "train", 600), {"bad": "good", "good": "bad"}
    for row in rows[::10]:
        row["verdict"] = other[row["verdict"]]
    write_table(place / "reviews.csv", rows)


def write_pages(data: Path, place: Path) -> None:
    """Write documents of nine sentences of SST-2, five or more of them of the verdict."""

    def pages(split: str, number: int) -> list[dict[str, Any]]:
        rows, written = reviews(data, split, 9 * number), []
        for first in range(0, len(rows), 9):
            part = rows[first : first + 9]
            good = sum(row["verdict"] == "good" for row in part)
            verdict = "good" if good > 4 else "bad"
            written.append({"page": ". ".join(row["review"] for row in part), "verdict": verdict})
        return written

    write_table(place / "pages.csv", pages("train", 400))
    write_table(place / "new.csv", [{"page": row["page"]} for row in pages("dev", 50)])


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
    for journey in "abcdefghijklm":
        (place / journey).mkdir(parents=True)
    write_reviews(data, place / "a")
    write_reviews(data, place / "c")
    (place / "c" / "notes").mkdir()
    for number, text in enumerate(write_manual(data, place / "b")):
        (place / "c" / "notes" / f"{number}.txt").write_text(text + "\n", "utf-8")
    write_teachers(place / "d")
    shutil.copytree(ROOT / "examples", place / "e" / "examples")
    record_hub(data, place / "g")
    write_notes(data, place / "h")
    write_llm(place / "i")
    write_decoder(place / "j")
    write_wrong_labels(data, place / "k")
    shutil.copytree(ROOT / "examples", place / "l" / "examples")
    write_pages(data, place / "m")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
