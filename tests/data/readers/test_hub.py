"""The hub's copies give the examples that the published files give."""

from dataclasses import replace
from pathlib import Path

import pytest

from road_ray.data.catalog import dataset
from road_ray.data.config import SourceConfig
from road_ray.data.examples import Answer, TextExample
from road_ray.data.load_split import find_dataset
from road_ray.data.readers import tables
from road_ray.data.readers.custom_dataset import CustomDataset
from road_ray.data.readers.layouts import read_split
from road_ray.data.readers.tables import load_rows
from road_ray.data.task_and_dataset import Classify, Hub
from road_ray.errors import ConfigError, DataError
from road_ray.verbs import configure


def hub_examples(entry, rows, split="train"):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "load_rows", lambda hub, part: rows)
        return read_split(replace(entry, hub=replace(entry.hub, path="hub")), None, split)


def table(names=None, **columns):
    import datasets

    rows = datasets.Dataset.from_dict(columns)
    return rows.cast_column("label", datasets.ClassLabel(names=names)) if names else rows


def test_class_numbers_become_what_the_files_say():
    qqp = table(
        ["not_duplicate", "duplicate"], question1=["a"], question2=["b"], label=[1], idx=[9]
    )
    nli = table(
        ["entailment", "neutral", "contradiction"],
        premise=["a", "c", "e"], hypothesis=["b", "d", "f"], label=[2, -1, 0], idx=[0, 1, 2],
    )  # fmt: skip
    cola = table(["unacceptable", "acceptable"], sentence=["a"], label=[1], idx=[0])
    assert hub_examples(dataset("cola"), cola) == [
        TextExample("0", ("a",), "acceptable", "hf://hub/train:1")
    ]
    assert hub_examples(dataset("qqp"), qqp) == [
        TextExample("9", ("a", "b"), "same", "hf://hub/train:1")
    ]
    assert hub_examples(dataset("mnli"), nli) == [
        TextExample("0", ("a", "b"), "contradiction", "hf://hub/train:1"),
        TextExample("2", ("e", "f"), "entailment", "hf://hub/train:3"),
    ]
    own = CustomDataset(hub="hub", text=("sentence",), labels=("0", "1"))  # names, not numbers
    flipped = table(["1", "0"], sentence=["a", "b"], label=[0, 1])
    entry, _ = find_dataset("own", SourceConfig(sets={"own": own}))
    assert [getattr(e, "label", "") for e in hub_examples(entry, flipped)] == ["1", "0"]
    hidden = hub_examples(dataset("mnli"), nli, "test")
    assert [getattr(e, "label", "") for e in hidden] == ["contradiction", None, "entailment"]


def test_numbers_and_spans_come_from_the_hub_too():
    stsb = table(sentence1=["a"], sentence2=["b"], label=[2.5], idx=[0])
    squad = table(
        id=["q1", "q2"], title=["t", "t"], context=["a b", "a b"], question=["x", "y"],
        answers=[{"text": ["b"], "answer_start": [2]}, {"text": [], "answer_start": []}],
    )  # fmt: skip
    assert hub_examples(dataset("stsb"), stsb) == [
        TextExample("0", ("a", "b"), "2.5", "hf://hub/train:1")
    ]
    spans = hub_examples(dataset("squad_v2"), squad)
    assert [getattr(e, "answers", None) for e in spans] == [(Answer("b", 2),), ()]


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """The cache that `datasets` leaves once it has loaded ``acme/reviews``; there is no network."""
    import datasets
    from datasets.packaged_modules.parquet.parquet import Parquet

    names, files = datasets.ClassLabel(names=["bad", "good"]), {}
    for split, rows in (("train", 40), ("validation", 10)):
        texts = [f"film {split} {n}" for n in range(rows)]
        made = datasets.Dataset.from_dict({"body": texts, "label": [n % 2 for n in range(rows)]})
        files[split] = str(tmp_path / f"{split}.parquet")
        made.cast_column("label", names).to_parquet(files[split])
    cache = tmp_path / "cache"
    builder = Parquet(cache_dir=str(cache), dataset_name="reviews", hash="0" * 40, data_files=files)
    builder.download_and_prepare()
    (cache / "acme___reviews").mkdir()
    Path(builder.cache_dir).parents[1].rename(cache / "acme___reviews" / "default")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_recorded_data_set_of_the_hub_is_found_by_its_name_without_a_network(road, recorded):
    result = road("init", "hub:acme/reviews", "--init", "my/model", "--output", "my.yaml").good()
    assert "labels: bad (25), good (25)" in result.out
    source = configure("finetune", path=recorded / "my.yaml").data
    assert source.sets["reviews"].hub == "acme/reviews"
    entry, task = find_dataset("reviews", source)
    assert task.kind == Classify(("bad", "good"))
    for split, rows in (("train", 40), ("dev", 10)):
        examples = read_split(entry, None, split)
        assert [example.label for example in examples] == ["bad", "good"] * (rows // 2)
        assert examples[3].texts == (f"film {'train' if split == 'train' else 'validation'} 3",)
    shown = road("data", "peek", "my.yaml")
    assert (shown.code, "film train" in shown.out) == (0, True)


def test_what_is_not_on_the_hub_or_cannot_be_reached_says_how_to_go_on():
    with pytest.raises(ConfigError, match=r"newsqa(.|\n)*data.root"):
        read_split(dataset("newsqa"), None, "dev")
    nowhere = replace(dataset("sst2"), hub=Hub("road-ray/no-such-data-set"))
    with pytest.raises(DataError, match=r"no-such-data-set(.|\n)*fix: check the network"):
        read_split(nowhere, None, "dev")


def test_cells_of_a_csv_of_the_hub_are_words(tmp_path):
    words = ["null", "NA", "nan", "None", "N/A"]
    rows = "".join(f"{word},{'ab'[n % 2]}\n" for n, word in enumerate(words))
    (tmp_path / "train.csv").write_text(f"text,label\n{rows}")
    for streaming in (False, True):
        loaded = load_rows(Hub(str(tmp_path)), "train", streaming=streaming)
        assert [row["text"] for row in loaded] == words
