"""A user's first hour with data of their own: look, write a configuration, train, predict."""

import json
import random
import shlex
import shutil
from pathlib import Path

import pytest

from tests.row_files import write_rows

GOOD, BAD = ("fine", "good", "bright"), ("dull", "slow", "poor")


def reviews(number: int) -> list[dict[str, str]]:
    drawn = random.Random(7)
    rows = []
    for index in range(number):
        label, words = drawn.choice([("good", GOOD), ("bad", BAD)])
        text = f"The {drawn.choice(words)} film {index}, a {drawn.choice(words)} story."
        rows.append({"id": f"r{index}", "review": text, "verdict": label})
    return rows


@pytest.fixture
def shell(road, tmp_path, pretrained, monkeypatch):
    """``shell(line)``: a command as it is typed, in a folder with a model in ``model/``."""
    shutil.copytree(pretrained.directory / "hf", tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROAD_DATA", raising=False)

    def run(line: str, code: int = 0) -> str:
        first, *words = shlex.split(line)
        assert first == "road"
        done = road(*words)
        assert done.code == code, done.err
        return done.out if code == 0 else done.err

    return run


def predictions(text):
    return [json.loads(line) for line in text.splitlines()]


def four_commands(shell, file, new, labelled, *, short=""):
    """Initialise, train, predict, evaluate: four commands and no other input than the files.
    Return the predictions of ``new``.
    """
    name = file.partition(".")[0]
    *_, last = shell(f"road init {file} --init model --output {name}.yaml").splitlines()
    shell(f"{last.removeprefix('next: ')} training.steps=2 {short}")
    shell(f"road predict runs/{name} {file} --output untouched.jsonl -q")  # the training file too
    result = shell(f"road predict runs/{name} {new} --output predicted.jsonl -q")
    assert f"road evaluate runs/{name} {new}" in result
    own = json.loads(shell(f"road evaluate init=runs/{name} --json"))["metrics"]
    assert any(key.startswith(f"eval/{name}/") for key in own)
    known = json.loads(Path(f"runs/{name}/metrics.json").read_text())
    assert own == {key: known[key] for key in own}  # the figures of the training itself
    by_yaml = json.loads(shell(f"road evaluate {name}.yaml --json"))["metrics"]
    assert by_yaml == own
    other_model = shell(f"road evaluate {name}.yaml init=runs/{name}/hf {short} --json")
    assert json.loads(other_model)["metrics"] == own  # the data are those of the file
    return predictions(open("predicted.jsonl").read()), json.loads(
        shell(f"road evaluate init=runs/{name} {labelled} --json")
    )["metrics"]


def test_a_classifier_knows_its_columns_labels_and_ids(shell, tmp_path):
    rows = [
        {"number": row["id"], "review": row["review"], "label": row["verdict"]}
        for row in reviews(80)
    ]
    write_rows(tmp_path / "reviews.csv", rows)
    further = [{"stars": str(n % 5), **row, "place": "=1+1"} for n, row in enumerate(rows[:7])]
    write_rows(tmp_path / "new.csv", further)
    predicted, judged = four_commands(shell, "reviews.csv", "new.csv", "new.csv")
    assert [row["stars"] for row in predicted] == [row["stars"] for row in further]
    assert [row["input_label"] for row in predicted] == [row["label"] for row in further]
    right = sum(row["label"] == row["input_label"] for row in predicted)
    assert judged["eval/reviews/accuracy"] == pytest.approx(100 * right / 7)
    import road_ray

    direct = road_ray.load("runs/reviews")([{"review": row["review"]} for row in further])
    assert [row["label"] for row in direct] == [row["label"] for row in predicted]
    shutil.copytree("runs/reviews/hf", "moved")  # the model alone knows all but the files
    assert json.loads(shell("road evaluate moved new.csv --json"))["metrics"] == judged
    told = shell("road evaluate moved", code=2)
    assert "data.sets.reviews" in told
    assert "is not given" in shell("road evaluate model", code=2)  # no data set of its own


def test_a_tagger_knows_its_layout(shell, tmp_path):
    names = ["Ada", "Bob", "Eve"]
    sentence = "\n".join(["{} NNP B-PER", "sleeps VBZ O", "in IN O", "Paris NNP B-LOC"])
    text = "\n\n".join(sentence.format(names[n % 3]) for n in range(40)) + "\n"
    (tmp_path / "names.conll").write_text(text)
    (tmp_path / "new.txt").write_text("\n\n".join(sentence.format(n) for n in names) + "\n")
    predicted, judged = four_commands(shell, "names.conll", "new.txt", "new.txt")
    assert [row["words"] for row in predicted] == [[n, "sleeps", "in", "Paris"] for n in names]
    assert "eval/names/entity_f1" in judged
    (tmp_path / "texts.txt").write_text("Ada sleeps in Paris\n")
    [row] = predictions(shell("road predict runs/names texts.txt"))
    assert row["tags"] == predicted[0]["tags"]


def test_a_model_of_answers_knows_its_windows(shell, tmp_path, world):
    document = json.loads((world / "squad" / "train-v2.0.json").read_text())
    document["data"] = document["data"][:2]
    (tmp_path / "manual.json").write_text(json.dumps(document))
    rows = [
        {"id": asked["id"], "question": asked["question"], "context": text["context"]}
        | {"source": "book"}
        for text in document["data"][0]["paragraphs"]
        for asked in text["qas"]
    ]
    write_rows(tmp_path / "new.jsonl", rows)
    short = "data.max_length_tokens=96 data.stride_tokens=16"
    predicted, judged = four_commands(shell, "manual.json", "new.jsonl", "manual.json", short=short)
    assert [row["id"] for row in predicted] == [row["id"] for row in rows]
    assert {row["source"] for row in predicted} == {"book"}
    assert "eval/manual/exact" in judged
