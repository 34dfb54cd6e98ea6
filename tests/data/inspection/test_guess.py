"""Guesses of task, columns, labels and split, by what is in a file or folder."""

from __future__ import annotations

import json
import random

import pytest

from road_ray.config import load
from road_ray.data.inspection import data_files
from road_ray.data.inspection import guess as guesses
from road_ray.data.inspection.data_files import Source, split_in_name
from road_ray.data.inspection.guess import Guess, Wishes, guess
from road_ray.data.inspection.starter_config import starter_yaml
from road_ray.data.readers.custom_dataset import CustomDataset
from road_ray.data.readers.layouts import read_split
from road_ray.errors import ConfigError, DataError

WORDS = ["a", "fine", "film", "with", "dull", "story", "and", "good", "actors", "slow", "scene"]


def texts(number, words=6):
    drawn = random.Random(0)
    return [f"{' '.join(drawn.choices(WORDS, k=words))} {n}" for n in range(number)]


def table(path, **columns):
    """Write columns as the format of the file name."""
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    if path.suffix == ".parquet":
        import datasets

        datasets.Dataset.from_list(rows).to_parquet(path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        between = {".csv": ",", ".tsv": "\t"}[path.suffix]
        lines = [between.join(map(str, row.values())) for row in rows]
        path.write_text("\n".join([between.join(columns), *lines]) + "\n")
    return str(path)


def folder(path, **files):
    path.mkdir()
    for name, content in files.items():
        (path / name.replace("__", ".")).write_text(content)
    return str(path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".json", ".parquet"])
def test_classes_of_a_text_in_every_format(tmp_path, suffix):
    columns = {"id": list(range(40)), "body": texts(40), "label": ["good", "bad"] * 20}
    place = table(tmp_path / f"reviews{suffix}", **columns)
    task_guess = guess(place)
    assert (task_guess.kind, task_guess.num_rows) == ("classify", 40)
    assert task_guess.entry == {
        **{"text": ["body"], "label": "label", "id": "id", "labels": ["bad", "good"]},
        **{"train": place, "dev_fraction": 0.1},
    }
    assert "classes: bad (20), good (20)" in task_guess.reasons


TEXTS = texts(40)
DAYS = ["2026-01-{:02}", "2026-01-{:02} 10:30:00", "{}.1.2026"]
ANSWERS = [{"text": ["Ada"], "answer_start": [0]}, {"text": [], "answer_start": []}]
QUESTIONS = {
    "context": ["Ada wrote it."] * 40,
    "question": ["Who?"] * 40,
    "answers": ANSWERS * 20,
    "topic": ["a", "b"] * 20,
}


@pytest.mark.parametrize(
    ("columns", "wishes", "entry"),
    [
        ({"stars": [n % 3 for n in range(40)]}, {}, {"labels": ["0", "1", "2"]}),
        (
            {"stars": [n % 3 for n in range(40)]},
            {"kind": "regress"},
            {"kind": "regress", "low": 0.0, "high": 2.0},
        ),
        ({"score": [*range(40)]}, {}, {"kind": "regress", "low": 0.0, "high": 39.0}),
        (
            {"label": ["Good", "good", "good", "bad"] * 10},
            {},
            {"labels": ["bad", "good"], "label_map": {"Good": "good"}},
        ),
        ({"body": TEXTS, "queue": ["a", "b"] * 20}, {"text": ["body"]}, {"text": ["body"]}),
        ({"text_pair": TEXTS, "queue": ["a", "b"] * 20}, {}, {"text": ["text", "text_pair"]}),
        ({"summary": TEXTS, "queue": ["a", "b"] * 20}, {}, {"text": ["text"]}),
        ({"q": ["a", "b"] * 20, "p": ["x", "y"] * 20}, {"label": "p"}, {"labels": ["x", "y"]}),
        *(
            (
                {"day": [day.format(n % 20 + 1) for n in range(40)], "queue": ["a", "b"] * 20},
                {},
                {"text": ["text"], "label": "queue"},
            )
            for day in DAYS
        ),
        (QUESTIONS, {}, {"kind": "span"}),
        (QUESTIONS, {"text": ["question"], "label": "topic"}, {"labels": ["a", "b"]}),
        (
            {"words": [["Ada", "in", "Ulm"]] * 40, "tags": [["S-PER", "O", "S-LOC"]] * 40},
            {},
            {
                **{"kind": "tag", "text": ["words"], "label": "tags"},
                **{"labels": ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]},
            },
        ),
    ],
)
def test_a_table_is_guessed_by_its_columns(tmp_path, columns, wishes, entry):
    made = guess(table(tmp_path / "t.jsonl", text=TEXTS, **columns), Wishes(**wishes))
    assert {key: made.entry.get(key) for key in entry} == entry


def test_choices_in_a_list_are_not_left_out_silently(tmp_path):
    row = {"question": "Where do fish live?", "choices": ["water", "sky"], "answer": 0}
    rows = [row | {"question": f"{n} {row['question']}", "answer": n % 2} for n in range(40)]
    place = tmp_path / "t.jsonl"
    place.write_text("".join(json.dumps(one) + "\n" for one in rows))
    with pytest.raises(ConfigError, match=r"column 'choices' has lists(.|\n)*--text question"):
        guess(str(place))
    assert guess(str(place), Wishes(text=["question"])).kind == "classify"


@pytest.mark.parametrize(
    ("columns", "wishes", "message"),
    [
        (
            {"q": ["a", "b"] * 20, "p": ["x", "y"] * 20},
            {},
            "2 columns could be the label:(.|\n)*--label q",
        ),
        ({"code": [str(n) for n in range(40)]}, {}, "no column looks like a label"),
        ({"label": ["a"] * 40}, {}, "one class only: a, in all 40 rows"),
        ({"label": [f"{n} x" for n in range(40)]}, {}, "40 different values.*which is no label"),
        ({"label": ["a", "b"] * 20}, {"kind": "regress"}, "column 'label' holds no numbers"),
        (
            {"body": ["a text", "", "b text", "b"] * 10, "label": ["a", "b"] * 20},
            {"text": ["body"]},
            r"10 of 40 rows have nothing .*t.csv:3\n",
        ),
        ({"q": ["a", "b"] * 20}, {"label": "queue"}, "no column 'queue'; found: text, q"),
        ({"q": ["a", "b"] * 20}, {"text": ["txt"]}, "no column 'txt'; found: .*nearest: 'txt'"),
        ({"q": ["a", "b"] * 20}, {"text": ["text"] * 3}, "--text names 3 columns"),
    ],
)
def test_what_is_not_clear_is_asked(tmp_path, columns, wishes, message):
    place = table(tmp_path / "t.csv", text=TEXTS, **columns)
    with pytest.raises((ConfigError, DataError), match=message):
        guess(place, Wishes(**wishes))


def test_the_files_beside_a_training_file_are_its_other_splits(tmp_path):
    scores = [round(0.1 * n, 1) for n in range(40)]
    columns = {"sentence1": TEXTS, "sentence2": TEXTS, "similarity": scores}
    place = table(tmp_path / "sts-train.csv", **columns)
    table(tmp_path / "other-dev.csv", **columns)
    dev = table(tmp_path / "sts-dev.csv", **columns | {"similarity": [n + 1 for n in scores]})
    test = table(tmp_path / "sts-test.csv", **columns | {"similarity": [-1.0] * 40})  # hidden
    entry = {"kind": "regress", "text": ["sentence1", "sentence2"], "label": "similarity"}
    files = {"train": place, "dev": dev, "test": test}
    assert guess(place).entry == entry | {"low": 0.0, "high": 5.0} | files
    table(tmp_path / "sts-dev.csv", **columns | {"similarity": [-1.5] * 40})
    assert guess(place).entry["low"] == -2.0


def test_squads_json_is_spans(world):
    nested = world / "squad" / "train-v2.0.json"
    made = guess(str(nested))
    dev = str(nested.with_name("dev-v2.0.json"))
    assert made.entry == {"kind": "span", "train": str(nested), "dev": dev}
    assert made.source.name == "squad_v2.0"
    assert any(reason.startswith("questions: 128, of which ") for reason in made.reasons)


@pytest.mark.parametrize(
    ("lines", "labels"),
    [
        ("Ann NNP I-PER\nran VB O\n\nRome NNP I-LOC\n\n", ["B-LOC", "I-LOC", "B-PER", "I-PER"]),
        ("Ada S-PER\nin O\nNew B-LOC\nYork E-LOC\n\n", ["B-LOC", "I-LOC", "B-PER", "I-PER"]),
        ("Ada B\nin O\nNew B\nYork I\n\n", ["B-ENTITY", "I-ENTITY"]),
    ],
)
def test_lines_of_words_are_tags(tmp_path, lines, labels):
    without = "Bob\nran\n\n"  # the words of a test file need no tags
    place = folder(tmp_path / "ner", train__txt=lines, dev__txt=lines, test__txt=without)
    files = {split: str(tmp_path / "ner" / f"{split}.txt") for split in ("train", "dev", "test")}
    assert guess(place).entry == {"kind": "tag", "labels": ["O", *labels], **files}


def test_text_is_for_pretraining(tmp_path):
    place = folder(tmp_path / "stories", a__txt="one\n\ntwo\n", b__txt="three\n")
    assert (guess(place).kind, guess(place).source.splits["train"]) == ("corpus", place)
    assert guess(str(tmp_path / "stories" / "a.txt")).kind == "corpus"
    assert guess(table(tmp_path / "t.jsonl", text=texts(9))).kind == "corpus"


def test_folders_of_tables(tmp_path):
    rows = "text,label\n" + "".join(f"{t},{'ab'[n % 2]}\n" for n, t in enumerate(texts(40)))
    split = folder(tmp_path / "split", train__csv=rows, val__csv=rows, README__md="x")
    assert guess(split).entry["dev"] == f"{split}/val.csv"
    first = folder(tmp_path / "one", all__csv=rows, README__md="x")
    assert guess(first).entry["train"] == f"{first}/all.csv"
    with pytest.raises(ConfigError, match=r"2 tables.*a.csv, b.csv(.|\n)*files train, dev"):
        guess(folder(tmp_path / "two", a__csv=rows, b__csv=rows))
    with pytest.raises(ConfigError, match=r"no data; found: x.pdf"):
        guess(folder(tmp_path / "none", x__pdf=""))
    (tmp_path / "many" / "b").mkdir(parents=True)
    (tmp_path / "many" / "a").mkdir()
    with pytest.raises(ConfigError, match=r"no data; found: a, b\n  fix: name the file"):
        guess(str(tmp_path / "many"))


def test_a_saved_data_set_and_a_folder_as_the_hub_has_them(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    names = datasets.ClassLabel(names=["calm", "urgent"])
    features = datasets.Features({"body": datasets.Value("string"), "mood": names})
    rows = {"body": texts(40), "mood": [0, 1] * 20}
    made = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict({"train": made, "validation": made}).save_to_disk(tmp_path / "saved")
    saved = guess(str(tmp_path / "saved")).entry
    assert (saved["train"], saved["dev"]) == tuple(
        str(tmp_path / "saved" / split) for split in ("train", "validation")
    )
    for number in range(2):
        made.shard(2, number).to_parquet(tmp_path / "hub" / f"train-{number}-of-2.parquet")
    made.to_parquet(tmp_path / "hub" / "validation-0-of-1.parquet")
    for place in (str(tmp_path / "hub"), f"hub:{tmp_path / 'hub'}"):
        actual = guess(place)
        assert actual.entry == {
            **{"text": ["body"], "label": "mood", "labels": ["calm", "urgent"]},
            **{"hub": str(tmp_path / "hub"), "train": "train", "dev": "validation"},
        }
    alone = tmp_path / "alone.parquet"
    made.to_parquet(alone)  # its classes are numbers, whose names are beside them
    for actual in (guess(str(alone)).entry, saved):
        assert (actual["labels"], actual["label_map"]) == (
            ["calm", "urgent"],
            {"0": "calm", "1": "urgent"},
        )


def test_large_splits_of_the_hub_are_streamed_and_text_alone_is_a_corpus(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for module in (data_files, guesses):
        monkeypatch.setattr(module, "MOST_ROWS", 20)
    rows = {"body": texts(40), "label": ["calm", "urgent"] * 20}
    place = f"hub:{tmp_path / 'large'}"
    datasets.Dataset.from_dict(rows).to_parquet(tmp_path / "large" / "train-0-of-1.parquet")
    made = guess(place)
    assert made.entry["first_rows"] == 20
    assert "first 20 rows were inspected and are streamed (first_rows)" in made.reasons[-1]
    written = starter_yaml(made, tmp_path / "a.yaml", "i", "s", place)
    assert "      first_rows: 20" in written
    assert "trains and evaluates on these first rows of each split, not on all of it" in written
    corpus = Guess(Source("wiki", "table", {"train": "train"}, ("acme/wiki", "raw")), "corpus", {})
    text = starter_yaml(corpus, tmp_path / "b.yaml", "", "s", "hub:acme/wiki:raw")
    assert "  corpus: hub:acme/wiki:raw" in text
    datasets.Dataset.from_dict({"text": texts(40)}).to_parquet(tmp_path / "t" / "train.parquet")
    assert guess(f"hub:{tmp_path / 't'}").kind == "corpus"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "the file is empty"),
        ("t.csv", b"text,label\n", "has no rows"),
        ("t.txt", "a text\n".encode("utf-16"), "not UTF-8.*utf-16"),
        ("t.xlsx", b"PK", r"\.xlsx is not read\n  allowed: .csv"),
        ("t.json", b"{", "broken JSON"),
        ("t.json", b"{}", "its rows have no columns"),
        ("t.txt", b" \n\n", "0 documents"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((ConfigError, DataError), match=rf"(?s)t\.\w+:?.*{message}"):
        guess(str(tmp_path / name))


def test_options_on_columns_are_refused_where_there_are_none(tmp_path):
    (tmp_path / "t.txt").write_text("a text\n")
    with pytest.raises(ConfigError, match="the file is plain text, not a table"):
        guess(str(tmp_path / "t.txt"), Wishes(label="x"))


def test_a_place_without_data_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"no such file or directory\n.*hub:org/name"):
        guess("org/name")
    with pytest.raises(DataError, match="hub:road-ray/no-such-data-set: cannot be loaded"):
        guess("hub:road-ray/no-such-data-set")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        *(("train-v2.0.json", "train"), ("dev.csv", "dev"), ("eng.testa", "dev")),
        *(("my_validation_rows.csv", "dev"), ("test.csv", "test"), ("trainer.csv", None)),
        *(("validation-00000-of-00001.parquet", "dev"), ("latest.csv", None)),
    ],
)
def test_a_name_tells_the_split(name, split):
    assert split_in_name(name) == split


def numbered_tags(path, tags):
    rows = [{"tokens": [f"w{n}" for n in range(len(row))], "ner_tags": row} for row in tags]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_tags_that_are_numbers_have_the_names_of_the_features_beside_the_file(tmp_path):
    path = numbered_tags(tmp_path / "t.jsonl", [[0, 1, 2, 3], [1, 0]] * 10)
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    tags = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "List"}
    about = {"features": {"ner_tags": tags}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(about))
    made = guess(str(path))
    assert (made.kind, made.entry["text"], made.entry["label"]) == ("tag", ["tokens"], "ner_tags")
    assert made.entry["labels"] == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    entry = load(CustomDataset, overrides=made.entry).dataset("t")
    assert read_split(entry, tmp_path, "train")[0].tags == ("O", "B-PER", "I-PER", "B-LOC")
