"""AdvGLUE's file as published, one list a task."""

from __future__ import annotations

import json

import pytest

from road_ray.data.catalog import dataset, task
from road_ray.data.readers.layouts import read_split
from road_ray.errors import DataError

ROWS = {
    "sst2": [{"idx": 0, "label": 1, "sentence": "uneaqsy mishmash"}],
    "mnli": [{"premise": "a", "hypothesis": "b", "label": 2, "idx": 0}],
    "qnli": [{"question": "q", "label": 0, "idx": 0}],
}


@pytest.fixture
def root(tmp_path):
    (tmp_path / "advglue").mkdir()
    (tmp_path / "advglue" / "dev.json").write_text(json.dumps(ROWS))
    return tmp_path


def test_each_task_has_its_rows_and_the_head_of_its_plain_set(root):
    (sst2,) = read_split(dataset("advglue_sst2"), root, "dev")
    assert (sst2.texts, sst2.label) == (("uneaqsy mishmash",), "1")
    (mnli,) = read_split(dataset("advglue_mnli"), root, "dev")
    assert mnli.texts == ("a", "b")
    assert dataset("advglue_mnli").label_map[mnli.label] == "contradiction"
    assert task("advglue_qqp") is task("qqp")


def test_what_is_missing_is_named(root):
    with pytest.raises(DataError, match=r"no rows of 'rte'; found: sst2, mnli, qnli"):
        read_split(dataset("advglue_rte"), root, "dev")
    with pytest.raises(DataError, match=r"dev.json: qnli\[0\]: no column 'sentence'"):
        read_split(dataset("advglue_qnli"), root, "dev")
    for odd in ({"qnli": 1}, {"qnli": [1]}):
        (root / "advglue" / "dev.json").write_text(json.dumps(odd))
        with pytest.raises(DataError, match=r"dev.json: 'qnli' is no list of rows"):
            read_split(dataset("advglue_qnli"), root, "dev")
