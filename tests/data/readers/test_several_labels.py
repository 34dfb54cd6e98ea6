"""Rows with any number of labels: lists, separated texts, columns of 0 and 1, and bad rows."""

from __future__ import annotations

import pytest

from road_ray.data.config import SourceConfig
from road_ray.data.features.encode_examples import check_labels
from road_ray.data.inspection.guess import guess
from road_ray.data.load_split import find_dataset, load_split, read_examples
from road_ray.data.readers.custom_dataset import CustomDataset
from road_ray.data.task_and_dataset import MultiLabel
from road_ray.errors import ConfigError, DataError
from tests.row_files import write_rows

LABELS = ["joy", "anger", "fear"]
ENTRY = {"kind": "multi", "text": "text", "labels": LABELS}


def source_of(tmp_path, file, **entry):
    own = CustomDataset(**ENTRY | {"train": file} | entry)
    return SourceConfig(root=str(tmp_path), sets={"own": own}, cache="off")


@pytest.fixture
def sets_of(tokenizer):
    def of(source, split="train"):
        return load_split("own", split, source, tokenizer).features.gold["labels"].tolist()

    return of


def jsonl(path, *labels):
    return write_rows(path, ({"text": "red", "labels": own} for own in labels))


def test_every_form_of_file_gives_the_same_labels(sets_of, tmp_path):
    expected = [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    names = [["joy", "fear"], [], ["anger"]]
    jsonl(tmp_path / "a.jsonl", *names)
    jsonl(tmp_path / "a.parquet", *names)
    (tmp_path / "a.csv").write_text("text,labels\nred,joy; fear\nred,\nred,anger\n")
    marks = "text,joy,anger,fear\nred,1,0,1\nred,0,0,0\nred,0,1,0\n"
    (tmp_path / "b.csv").write_text(marks)
    for file, keys in {
        "a.jsonl": {"label": "labels"},
        "a.parquet": {"label": "labels"},
        "a.csv": {"label": "labels", "separator": ";"},
        "b.csv": {"label": LABELS},
    }.items():
        assert sets_of(source_of(tmp_path, file, **keys)) == expected, file
    bare = source_of(tmp_path, "b.csv", label=LABELS, labels=[])
    assert find_dataset("own", bare)[1].kind == MultiLabel(tuple(LABELS))


def test_numbers_of_classes_have_the_names_of_the_features(sets_of, tmp_path):
    import datasets

    classes = datasets.List(datasets.ClassLabel(names=[*LABELS, "awe"]))
    features = datasets.Features({"text": datasets.Value("string"), "labels": classes})
    made = {"text": ["red"] * 9, "labels": [[0, 2], [], [1]] * 3}
    datasets.Dataset.from_dict(made, features).to_parquet(tmp_path / "a.parquet")
    source = source_of(tmp_path, "a.parquet", label="labels")
    assert sets_of(source)[:3] == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    entry = guess(str(tmp_path / "a.parquet")).entry
    assert (entry["kind"], entry["labels"]) == ("multi", [*LABELS, "awe"])


def test_hidden_labels_of_a_test_split_and_other_spellings(sets_of, tmp_path):
    (tmp_path / "t.csv").write_text("text,joy,anger,fear\nred,-1,-1,-1\nred,0,1,0\n")
    source = source_of(tmp_path, None, test="t.csv", label=LABELS)
    assert sets_of(source, "test") == [[-100] * 3, [0, 1, 0]]
    jsonl(tmp_path / "m.jsonl", [0, "Wut"])
    source = source_of(tmp_path, "m.jsonl", label="labels", label_map={"0": "joy", "Wut": "anger"})
    assert sets_of(source) == [[1, 1, 0]]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["joy", "mirth"], r":1 label='mirth', allowed: joy, anger, fear"),
        (["joy", "joy"], r":1 .*'joy' occurs twice"),
        ("joy", r":1 labels='joy': no list of labels"),
        (3, r":1 labels='3': no list of labels"),
        ([["joy"]], r":1 .*no list of labels"),
        ({"joy": 1}, r":1 .*no list of labels"),
        ([None], r":1 .*no list of labels"),
        ([0.5], r":1 .*no list of labels"),
        (None, "0 usable rows"),
    ],
)
def test_bad_rows_are_refused_with_their_place(tmp_path, labels, message):
    jsonl(tmp_path / "a.jsonl", labels)
    source = source_of(tmp_path, "a.jsonl", label="labels")
    entry, task = find_dataset("own", source)
    with pytest.raises(DataError, match=f"a.jsonl{message}|{message}"):
        check_labels(read_examples(entry, "train", tmp_path), entry, task)


def test_labels_that_are_not_named_are_listed_from_the_file(tmp_path):
    (tmp_path / "a.csv").write_text("text,l\nx,b|a\nx,\nx,b\n")
    source = source_of(tmp_path, "a.csv", label="l", separator="|", labels=[])
    with pytest.raises(ConfigError, match=r'b \(2\), a \(1\)\n.*\n    labels: \["a", "b"\]'):
        find_dataset("own", source)
