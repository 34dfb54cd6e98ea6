"""Guesses of task, columns, labels and split, by what is in a file or folder."""

import json
import random
from types import SimpleNamespace

import datasets
import pytest

from road_ray.config import load
from road_ray.data.config import SourceConfig
from road_ray.data.inspection import data_files
from road_ray.data.inspection import guess as guesses
from road_ray.data.inspection.data_files import Guess
from road_ray.data.inspection.guess import guess
from road_ray.data.inspection.split_preview import format_examples, format_rows
from road_ray.data.inspection.starter_config import starter_yaml
from road_ray.data.readers.custom_dataset import CustomDataset
from road_ray.data.readers.layouts import read_split
from road_ray.data.task_and_dataset import Hub
from road_ray.errors import ConfigError, DataError
from road_ray.recipes.pretraining.config import PretrainConfig
from tests.row_files import write_rows

WORDS = ["a", "fine", "film", "with", "dull", "story", "and", "good", "actors", "slow", "scene"]


def texts(number, words=6):
    drawn = random.Random(0)
    return [f"{' '.join(drawn.choices(WORDS, k=words))} {n}" for n in range(number)]


def table(path, **columns):
    rows = (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))
    return str(write_rows(path, rows))


def folder(path, **files):
    path.mkdir()
    for name, content in files.items():
        (path / name.replace("__", ".")).write_text(content)
    return str(path)


TEXTS = texts(40)
AB = ["a", "b"] * 20
TEXT = {"text": ["text"]}
STARS, NUMBER = {"stars": [n % 3 for n in range(40)]}, {"kind": "regress"}
ASKED = {"text": ["question"]}
ANSWERS = [{"text": ["Ada"], "answer_start": [0]}, {"text": [], "answer_start": []}]
QUESTIONS = {"context": ["Ada wrote it."] * 40, "question": ["Who?"] * 40, "answers": ANSWERS * 20}
WORDS_AND_TAGS = {"words": [["Ada", "in", "Ulm"]] * 40, "tags": [["S-PER", "O", "S-LOC"]] * 40}
NAMES = ("anger", "fear", "joy")
DRAWN = random.Random(1)
MOODS = [[name for name in NAMES if DRAWN.random() < 0.5] for _ in range(40)]
MARKS = {name: [int(name in names) for names in MOODS] for name in NAMES}
TWO_MARKS = {name: MARKS[name] for name in NAMES[:2]}
SEVERAL = {"kind": "multi", **TEXT, "labels": [*NAMES]}
TAGS = {"labels": ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]}
SPELLED = {"labels": ["bad", "good"], "label_map": None}


def separated(mark):
    return [mark.join(names) for names in MOODS]


@pytest.mark.parametrize(
    ("columns", "wishes", "entry"),
    [
        ({"id": [*range(40)], "label": AB}, {}, {"label": "label", "id": "id"}),
        (STARS, {}, TEXT | {"labels": ["0", "1", "2"]}),
        (STARS, NUMBER, NUMBER | TEXT | {"label": "stars", "low": 0.0, "high": 2.0}),
        ({"score": [*range(40)]}, {}, {"kind": "regress", **TEXT, "low": 0.0, "high": 39.0}),
        ({"label": ["Good", "good", "good", "bad"] * 10}, {}, TEXT | SPELLED),
        ({"body": TEXTS, "queue": AB}, {"text": ["body"]}, {"text": ["body"], "label": "queue"}),
        ({"text_pair": TEXTS, "queue": AB}, {}, {"text": ["text", "text_pair"], "label": "queue"}),
        ({"summary": TEXTS, "queue": AB}, {}, TEXT | {"label": "queue"}),
        ({"q": AB, "p": ["x", "y"] * 20}, {"label": "p"}, TEXT | {"labels": ["x", "y"]}),
        (QUESTIONS | {"topic": AB}, {}, {"kind": "span"}),
        (QUESTIONS | {"topic": AB}, ASKED | {"label": "topic"}, ASKED | {"labels": ["a", "b"]}),
        (WORDS_AND_TAGS, {}, {"kind": "tag", "text": ["words"], "label": "tags", **TAGS}),
        ({"labels": MOODS}, {}, SEVERAL | {"label": "labels"}),
        ({"moods": MOODS}, {"label": "moods"}, SEVERAL | {"label": "moods"}),
        ({"labels": [*map(json.dumps, MOODS)]}, {}, SEVERAL | {"separator": None}),
        ({"label": ["+", "-", "0", "+"] * 10}, {}, TEXT | {"labels": ["0", "+", "-"]}),
        *(
            ({"tags": separated(m)}, {}, SEVERAL | {"label": "tags", "separator": m.strip()})
            for m in (";", "|", ", ")
        ),
        ({"x": separated(";")}, {"label": "x"}, SEVERAL | {"label": "x", "separator": ";"}),
        (MARKS, {}, {"kind": "multi", **TEXT, "label": [*NAMES]}),
        (TWO_MARKS, {"kind": "multi"}, {"kind": "multi", **TEXT, "label": ["anger", "fear"]}),
        (TWO_MARKS, {"label": "anger"}, TEXT | {"label": "anger", "labels": ["0", "1"]}),
        (MARKS | {"label": AB}, {}, TEXT | {"label": "label"}),
        ({"labels": ["Oslo, NO", "Paris, FR", "Rome, IT", "Bern, CH"] * 10}, {}, TEXT),
    ],
)
def test_a_table_is_guessed_by_its_columns(tmp_path, columns, wishes, entry):
    made = guess(table(tmp_path / "t.jsonl", text=TEXTS, **columns), **wishes)
    assert made.kind == made.entry.get("kind", "classify") == entry.get("kind", "classify")
    assert {key: made.entry.get(key) for key in entry} == entry


@pytest.mark.parametrize(
    ("columns", "wishes", "message"),
    [
        ({"q": AB, "p": ["x", "y"] * 20}, {}, "2 columns could be the label:.*--label q"),
        (TWO_MARKS, {}, "2 columns could be the label.*by --kind multi"),
        ({"code": [str(n) for n in range(40)]}, {}, "no column looks like a label"),
        ({"label": ["a"] * 40}, {}, "1 different values, such as 'a' in 40 rows"),
        ({"label": [f"{n} x" for n in range(40)]}, {}, "40 different values.*which is no label"),
        ({"label": AB}, {"kind": "regress"}, "column 'label' holds no numbers"),
        (
            {"body": ["a text", "", "b text", "b"] * 10, "label": AB},
            {"text": ["body"]},
            r"10 of 40 rows have nothing .*t.jsonl:2\n",
        ),
        ({"p": ["3,52", "12,99"] * 20}, {"label": "p"}, "'p' has numbers with a comma.*a point"),
        ({"q": AB}, {"label": "queue"}, "no column 'queue'; found: text, q"),
        ({"q": AB}, {"text": ["txt"]}, "no column 'txt'; found: .*nearest: 'txt'"),
        ({"q": AB}, {"text": ["text"] * 3}, "--text names 3 columns"),
        ({}, {"label": "text"}, "0 columns of text"),
        ({"id": [f"n{n}" for n in range(40)]}, {"label": "text"}, "0 columns of text"),
        ({"a": TEXTS, "choices": [["x"]] * 40}, {"label": "text"}, "'choices' has lists or"),
        ({"ner": [[0, 1]] * 40}, {}, "no column looks like a label.*ner: lists or objects"),
        ({"a": AB, "q": ["x", "y"] * 20}, {}, "'a' is the name of a column and one of its"),
        ({"labels": AB}, {"kind": "multi", "label": "labels"}, "no column 'labels' with several"),
    ],
)
def test_what_is_not_clear_is_asked(tmp_path, columns, wishes, message):
    place = table(tmp_path / "t.jsonl", text=TEXTS, **columns)
    with pytest.raises((ConfigError, DataError), match=f"(?s){message}"):
        guess(place, **wishes)


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
    assert guess(place).name == "sts"


def test_labels_of_the_dev_split_are_among_them(tmp_path):
    (tmp_path / "moods").mkdir()
    for split, names in ("train", [["Joy"], ["joy"], ["fear", "joy"]] * 8), ("dev", [["awe"]]):
        table(tmp_path / "moods" / f"{split}.jsonl", body=texts(len(names)), labels=names)
    found = guess(str(tmp_path / "moods"))
    assert found.entry["labels"] == ["awe", "fear", "joy"]


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


def test_tags_that_are_numbers_have_the_names_of_the_features_beside_the_file(tmp_path):
    tags = [[0, 1, 2, 3], [1, 0]] * 10
    words = [[f"w{n}" for n in range(len(row))] for row in tags]
    place = table(tmp_path / "t.jsonl", tokens=words, ner_tags=tags)
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "List"}
    about = {"features": {"ner_tags": feature}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(about))
    made = guess(place)
    assert (made.kind, made.entry["text"], made.entry["label"]) == ("tag", ["tokens"], "ner_tags")
    assert made.entry["labels"] == TAGS["labels"]
    entry = load(CustomDataset, overrides=made.entry).dataset("t")
    assert read_split(entry, tmp_path, "train")[0].tags == ("O", "B-PER", "I-PER", "B-LOC")


def test_text_is_for_pretraining(tmp_path):
    place = folder(tmp_path / "stories", a__txt="one\n\ntwo\n", b__txt="three\n")
    assert (guess(place).kind, guess(place).splits["train"]) == ("corpus", place)
    assert guess(str(tmp_path / "stories" / "a.txt")).kind == "corpus"
    assert guess(table(tmp_path / "t.jsonl", text=texts(9))).kind == "corpus"
    with pytest.raises(ConfigError, match="layout text, it is no table"):
        guess(str(tmp_path / "stories" / "a.txt"), label="x")


def test_folders_of_tables(tmp_path):
    rows = "text,label\n" + "".join(f"{t},{'ab'[n % 2]}\n" for n, t in enumerate(TEXTS))
    split = folder(tmp_path / "split", train__csv=rows, val__csv=rows, README__md="x")
    assert guess(split).entry["dev"] == f"{split}/val.csv"
    first = folder(tmp_path / "one", all__csv=rows, README__md="x")
    assert guess(first).entry["train"] == f"{first}/all.csv"
    with pytest.raises(ConfigError, match=r"2 tables.*a.csv, b.csv(.|\n)*files train, dev"):
        guess(folder(tmp_path / "two", a__csv=rows, b__csv=rows))
    with pytest.raises(ConfigError, match=r"no data; found: x.pdf"):
        guess(folder(tmp_path / "none", x__pdf=""))


def test_a_saved_data_set_and_a_folder_as_the_hub_has_them(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    names = datasets.ClassLabel(names=["calm", "urgent"])
    features = datasets.Features({"body": datasets.Value("string"), "mood": names})
    rows = {"body": TEXTS, "mood": [0, 1] * 20}
    made = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict({"train": made, "validation": made}).save_to_disk(tmp_path / "saved")
    saved = guess(str(tmp_path / "saved")).entry
    parts = [str(tmp_path / "saved" / split) for split in ("train", "validation")]
    assert [saved["train"], saved["dev"]] == parts
    for number in range(2):
        made.shard(2, number).to_parquet(tmp_path / "hub" / f"train-{number}-of-2.parquet")
    made.to_parquet(tmp_path / "hub" / "validation-0-of-1.parquet")
    for place in (str(tmp_path / "hub"), f"hub:{tmp_path / 'hub'}"):
        assert guess(place).entry == {
            **{"text": ["body"], "label": "mood", "labels": ["calm", "urgent"]},
            **{"hub": str(tmp_path / "hub"), "train": "train", "dev": "validation"},
        }
    alone = tmp_path / "alone.parquet"
    made.to_parquet(alone)  # its classes are numbers, whose names are beside them
    for actual in (guess(str(alone)).entry, saved):
        assert actual["labels"] == ["calm", "urgent"]
        assert actual["label_map"] == {"0": "calm", "1": "urgent"}


def test_splits_of_one_kind_that_are_not_read_are_told(tmp_path, monkeypatch):
    (tmp_path / "two").mkdir()
    for name in ("train_a", "train_b", "dev"):
        table(tmp_path / "two" / f"{name}.csv", body=TEXTS, label=AB)
    told = guess(str(tmp_path / "two")).reasons
    assert any(r.startswith(f"not read: {tmp_path}/two/train_b.csv, as") for r in told)
    names = ["train", "validation_matched", "validation_mismatched", "test"]
    hub = SimpleNamespace(get_dataset_split_names=lambda *place: names)
    rows = datasets.Dataset.from_dict({"body": TEXTS, "label": AB})
    monkeypatch.setattr(data_files, "datasets_library", lambda: hub)
    asked = []
    monkeypatch.setattr(data_files, "load_rows", lambda hub, part, **_: asked.append(part) or rows)
    found = guess("hub:acme/nli")
    assert asked == ["train", "validation_matched"]  # of a test split nothing is guessed
    assert found.entry["dev"] == "validation_matched"
    assert any(r.startswith("not read: validation_mismatched, as") for r in found.reasons)


def test_large_splits_of_the_hub_are_streamed_and_text_alone_is_a_corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for module in (data_files, guesses):
        monkeypatch.setattr(module, "MOST_ROWS", 20)
    rows = {"body": TEXTS, "label": AB}
    place = f"hub:{tmp_path / 'large'}"
    datasets.Dataset.from_dict(rows).to_parquet(tmp_path / "large" / "train-0-of-1.parquet")
    made = guess(place)
    assert made.reasons[-1] == "only the first 20 rows were inspected"
    corpus = Guess("wiki", "table", {"train": ["train"]}, Hub("acme/wiki", "raw"), kind="corpus")
    text = starter_yaml(corpus, tmp_path / "b.yaml", "", PretrainConfig, "s", "hub:acme/wiki:raw")
    assert "  corpus: hub:acme/wiki:raw" in text
    datasets.Dataset.from_dict({"text": TEXTS}).to_parquet(tmp_path / "t" / "train.parquet")
    assert guess(f"hub:{tmp_path / 't'}").kind == "corpus"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "no row with a column"),
        ("t.csv", b"text,label\n", "no row with a column"),
        ("t.xlsx", b"PK", r"\.xlsx is not a supported table\n  allowed: .jsonl"),
        ("t.json", b"{}", "no row with a column"),
        ("t.json", b'{"data": [{"paragraphs": [{"qas": [{}]}]}]}', "not in the layout of SQuAD"),
        ("t.txt", b" \n\n", "0 documents"),
        ("org/name", None, r"no such file or directory\n.*hub:ORGANISATION/NAME"),
        ("hub:road-ray/no-such-data-set", None, "no-such-data-set could not be loaded"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((ConfigError, DataError), match=rf"(?s){message}"):
        guess(name if content is None else str(tmp_path / name))


def test_columns_of_answers_are_said_to_be_those_of_a_teacher(tmp_path):
    shares = {"probability_a": [0.25] * 40, "probability_b": [0.75] * 40}
    made = guess(table(tmp_path / "t.csv", text=TEXTS, label=AB, **shares))
    assert "labels: a (20), b (20)" in made.reasons
    assert "not read: probability_a, probability_b" in made.reasons
    assert any("distillation.teachers=FILE" in reason for reason in made.reasons)
    made = guess(table(tmp_path / "plain.csv", text=TEXTS, label=AB))
    assert not any("teacher" in reason for reason in made.reasons)


@pytest.fixture
def source(world):
    return SourceConfig(root=str(world))


def test_answers_are_the_tokens_between_their_ends(source, tokenizer, tmp_path):
    tokenizer.save_pretrained(vocabulary := str(tmp_path))
    lines = format_rows("squad_v2", "train", source, vocabulary, 40).splitlines()
    answers = 0
    for tokens, gold in zip(lines[2::3], lines[3::3], strict=True):
        if gold != "  gold: no answer in this window":
            words, _, place = gold.removeprefix("  gold: ").partition("  (tokens ")
            start, end = map(int, place.rstrip(")").split(" to "))
            assert tokens.split()[start : end + 1] == words.split()
            answers += 1
    assert 0 < answers < 40
    assert "gold: unknown" in format_rows("sst2", "test", source, vocabulary, 1)


def test_examples_are_shown_without_a_tokenizer(source):
    shown = format_examples("squad_v2", "train", source, 40)
    assert shown.startswith("squad_v2 train: 128 examples; ")
    assert "  gold: no answer" in shown
    assert "(character " in shown
