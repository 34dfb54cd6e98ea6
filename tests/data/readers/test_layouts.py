"""Splits of catalogue entries: found, read, counted; from files and from hub-like tables."""

import gzip
from dataclasses import replace

import pytest

from road_ray.config import load
from road_ray.data.catalog import DATASETS, TASKS, dataset
from road_ray.data.config import SourceConfig
from road_ray.data.load_split import find_dataset
from road_ray.data.readers.custom_dataset import CustomDataset
from road_ray.data.readers.layouts import LAYOUTS, read_split
from road_ray.data.task_and_dataset import Classify, Span, Tag
from road_ray.errors import ConfigError, DataError
from road_ray.evaluation.metrics import known_metrics

# rows that the README of the real data promises: train, dev, test
ROWS = {
    "cola": (8_551, 1_043, 1_063),
    "qnli": (10_475, 5_463, 5_463),
    "wnli": (635, 71, 146),
    "amazon": (5_000, 7_600, None),
    "boolq": (2_000, 3_270, None),
    "commonsenseqa": (9_741, 1_221, None),
    "qasrl": (7_188, 7_102, None),
    "qazre": (127, 128, None),
    "duorc": (127, 126, None),
    "ax": (None, None, 1_104),
    "sst2": (67_349, 872, 1_821),
    "qqp": (43_873, 7_598, None),
    "mrpc": (3_668, 408, 1_725),
    "mnli": (12_811, 9_085, None),
    "snli": (7_876, 1_966, None),
    "rte": (2_490, 277, 3_000),
    "stsb": (5_749, 1_500, 1_379),
    "squad_v1": (8_930, 3_038, None),
    "squad_v2": (15_008, 5_795, None),
    "newsqa": (None, 4_212, None),
    "conll2003": (14_041, 3_250, 3_453),
}


@pytest.mark.parametrize("name", ROWS)
def test_real_files_have_the_promised_rows(real_data, name):
    for split, count in zip(("train", "dev", "test"), ROWS[name], strict=True):
        if count is None:
            with pytest.raises((ConfigError, DataError), match=f"data set '{name}'"):
                read_split(dataset(name), real_data, split)
        else:
            assert len(read_split(dataset(name), real_data, split)) == count


@pytest.mark.parametrize("entry", DATASETS.values(), ids=lambda entry: entry.name)
def test_an_entry_names_tasks_layouts_metrics_and_labels_that_exist(entry):
    assert entry.layout in LAYOUTS
    kind = TASKS[entry.task].kind
    known = {"exact", "f1"} if isinstance(kind, Span) else set(known_metrics())
    assert set(entry.metrics) <= ({"entity_f1"} if isinstance(kind, Tag) else known)
    if entry.label_map:
        assert isinstance(kind, Classify)
        assert set(entry.label_map.values()) <= set(kind.labels)
    assert set(entry.also) <= set(TASKS)
    assert entry.splits


def sst2_at(root, name, content):
    (root / "glue" / "SST-2").mkdir(parents=True, exist_ok=True)
    (root / "glue" / "SST-2" / name).write_bytes(content)
    return root


def test_a_plain_file_goes_before_the_packed_one(tmp_path):
    packed = gzip.compress(b"sentence\tlabel\npacked\t1\n")
    root = sst2_at(tmp_path, "dev.tsv.gz", packed)
    assert read_split(dataset("sst2"), root, "dev")[0].texts == ("packed",)
    sst2_at(root, "dev.tsv", b"sentence\tlabel\nplain\t1\n")
    assert read_split(dataset("sst2"), root, "dev")[0].texts == ("plain",)


def test_several_dev_files_follow_each_other(tmp_path):
    entry = replace(dataset("sst2"), splits={"dev": ("dev_b.tsv", "dev_a.tsv")})
    sst2_at(tmp_path, "dev_a.tsv", b"sentence\tlabel\na\t1\n")
    sst2_at(tmp_path, "dev_b.tsv", b"sentence\tlabel\nb\t1\n")
    assert [e.texts for e in read_split(entry, tmp_path, "dev")] == [("b",), ("a",)]


def test_a_missing_file_says_what_was_looked_for(tmp_path):
    with pytest.raises(DataError) as raised:
        read_split(dataset("sst2"), tmp_path, "train")
    text = str(raised.value)
    assert f"no file {tmp_path}/glue/SST-2/train.tsv (or train.tsv.gz)" in text
    assert "found there: nothing" in text
    assert f"data.root is {tmp_path}" in text
    sst2_at(tmp_path, "dev.tsv", b"x")
    with pytest.raises(DataError, match=r"found there: dev.tsv"):
        read_split(dataset("sst2"), tmp_path, "train")


def test_an_unknown_split_is_named(tmp_path):
    with pytest.raises(ConfigError, match="'sst2' has no valid split; it has: train, dev, test"):
        read_split(dataset("sst2"), tmp_path, "valid")


@pytest.mark.parametrize(
    ("own", "labels"),
    [
        ({"labels": ["0", "1"]}, ["1", None, None]),
        ({"labels": ["-1", "1"]}, ["1", None, "-1"]),
        ({"labels": ["no", "yes"], "label_map": {"-1": "no", "1": "yes"}}, ["yes", None, "no"]),
        ({"kind": "regress", "high": 5}, ["1", None, None]),
        ({"kind": "regress", "low": -1}, ["1", None, "-1"]),
        ({"labels": ["no", "1"], "label_map": {"": "no"}}, ["1", "no", None]),
    ],
)
def test_hidden_labels_of_a_test_file_are_none(tmp_path, own, labels):
    (tmp_path / "t.csv").write_text("a,label\nx,1\ny,\nz,-1\n")
    keys = {"train": "t.csv", "test": "t.csv", "text": ["a"]}
    entry, _ = find_dataset("mine", SourceConfig(sets={"mine": CustomDataset(**keys, **own)}))
    assert [e.label for e in read_split(entry, tmp_path, "test")] == labels
    train = [e.label for e in read_split(entry, tmp_path, "train")]
    named = entry.label_map.get
    assert train == [named("1", "1"), *(["no"] if "" in entry.label_map else []), named("-1", "-1")]


def test_a_wrong_path_names_the_nearest_file(tmp_path):
    (tmp_path / "tickets-train.csv").write_text("a,label\nx,1\n")
    (tmp_path / "other.csv").write_text("a,label\nx,1\n")
    for train in ("ticket-train.csv", "tickets_train.csv"):
        entry = load(CustomDataset, overrides={"train": train, "text": "a"}).dataset("mine")
        with pytest.raises(DataError, match=r"did you mean 'tickets-train.csv'\?"):
            read_split(entry, tmp_path, "train")
