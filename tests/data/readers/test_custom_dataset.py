"""A user's own files are one entry of the configuration, of any kind and layout."""

from __future__ import annotations

import json
import re

import pytest

from road_ray.config import json_schema, load
from road_ray.data.config import SourceConfig
from road_ray.data.load_split import find_dataset, load_split
from road_ray.data.readers.custom_dataset import CustomDataset
from road_ray.data.task_and_dataset import Classify
from road_ray.data.tokenizer import train_wordpiece
from road_ray.errors import ConfigError, DataError
from road_ray.recipes.train.config import FinetuneConfig
from road_ray.verbs import configure


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(
        ["the red and the green apple fell far from the tree " * 9], vocab_size=60
    )


def split_of(tokenizer, tmp_path, part="train", **own):
    source = SourceConfig(root=str(tmp_path), sets={"mine": CustomDataset(**own)})
    return load_split("mine", part, source, tokenizer)


def test_a_csv_with_two_texts_and_labels_by_name(tokenizer, tmp_path):
    (tmp_path / "t.csv").write_text("subject,body,queue\nred,apple,s\n'far,from the tree,h\n")
    settings = {"train": "t.csv", "text": ("subject", "body"), "label": "queue"}
    settings |= {"labels": ("sales", "help"), "label_map": {"s": "sales", "h": "help"}}
    split = split_of(tokenizer, tmp_path, **settings)
    assert split.features.gold["labels"].tolist() == [0, 1]
    assert split.task.kind == Classify(("sales", "help"))
    (tmp_path / "t.csv").write_text("subject,body,queue\nred,apple,s\nfar,tree,x\n")
    with pytest.raises(DataError, match=r"t.csv:3 label='x', allowed: 's' = sales, 'h' = help"):
        split_of(tokenizer, tmp_path, **settings)


def test_one_text_column_needs_no_list(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(
        "data:\n  dataset: mine\n  sets:\n    mine: {train: t.csv, text: title, labels: [a, b]}\n"
    )
    for override, columns in (([], ("title",)), (["0"], (0,)), (["body,b"], ("body", "b"))):
        words = [f"data.sets.mine.text={word}" for word in override]
        source = configure("finetune", path=path, overrides=words).data
        assert source.sets["mine"].text == columns
    with pytest.raises(ConfigError, match=r"data.sets.mine.text.*true"):
        configure("finetune", path=path, overrides=["data.sets.mine.text=true"])
    schema = json_schema(CustomDataset)["properties"]["text"]["anyOf"]
    assert {item["type"] for item in schema} >= {"array", "string"}


def test_a_metric_names_the_language_of_the_answers(tokenizer, tmp_path):
    paragraph = {"context": "the red apple", "qas": [{"id": "1", "question": "which?"}]}
    (tmp_path / "s.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    chinese = {"train": "s.json", "kind": "span", "metrics": ("f1_zh", "exact_zh")}
    split = split_of(tokenizer, tmp_path, **chinese)
    assert split.examples[0].language == "zh"
    assert split.dataset.metrics == split.dataset.figures == ("f1", "exact")


SEVERAL = {"kind": "multi", "train": "a.csv", "text": ["t"], "labels": ["joy", "fear"]}


def test_names_of_other_sets_are_refused():
    own = CustomDataset(train="x.csv", task="nli", text=("a", "b"))
    with pytest.raises(ConfigError, match="the catalogue has a data set of that name"):
        find_dataset("mnli", SourceConfig(sets={"mnli": own}))
    with pytest.raises(ConfigError, match="did you mean 'mine'"):
        find_dataset("mime", SourceConfig(sets={"mine": own}))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"labels": ["a", "b"], "text": ["t"]}, "without files"),
        (
            {"train": "x.csv", "text": ["t"], "labels": ["a"]},
            "at least two, or a task; for numbers: kind: regress",
        ),
        (
            {"dev": "y.csv", "dev_fraction": 0.1, "kind": "span"},
            "dev_fraction takes the dev split from train: give train",
        ),
        ({"train": "x.csv", "kind": "span", "first_rows": 7}, "hub, which is not given"),
        ({"train": "x.csv", "labels": ["a", "b"]}, "one or two columns"),
        ({"train": "x.csv", "kind": "choose", "text": ["q", "a"]}, "at least two choices"),
        (
            {"train": "x.csv", "kind": "regress", "text": ["t"], "low": -100, "high": 100},
            "low = -100.0, high = 100.0: -100 stands for a missing label",
        ),
        ({"train": "x.csv", "lables": ["a"]}, "labels"),
        (
            {"train": "x.csv", "text": ["t"], "labels": ["a", "b"], "label_map": {"x": "c"}},
            "label_map names 'c', labels are ['a', 'b']",
        ),
        (
            {"train": "x.csv", "text": ["t"], "labels": ["a", "b"], "metrics": ["acuracy"]},
            "kind classify has no metric acuracy; did you mean 'accuracy'",
        ),
        ({"train": "x.json", "kind": "span", "metrics": ["accuracy"]}, "allowed: exact, f1"),
        ({"train": "x.json", "kind": "span", "metrics": ["f1_fr"]}, "did you mean"),
        (
            {"train": "x.json", "kind": "span", "metrics": ["f1_zh", "exact"]},
            "of several languages",
        ),
        (SEVERAL | {"kind": "classify", "label": ["a", "b"]}, "or a separator, are of kind multi"),
        (SEVERAL | {"kind": "classify", "separator": ";"}, "or a separator, are of kind multi"),
        (SEVERAL | {"label": ["a"]}, "at least two columns, each once"),
        (SEVERAL | {"label": ["a", "a"]}, "at least two columns, each once"),
        (SEVERAL | {"label": ["a", "b"], "separator": ";"}, "each once, without a separator"),
        (SEVERAL | {"labels": ["joy"]}, "at least two"),
        (SEVERAL | {"metrics": ["accuracy"]}, "kind multi has no metric accuracy"),
    ],
)
def test_an_entry_that_cannot_be_right_is_refused(own, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        load(FinetuneConfig, base={"data": {"sets": {"mine": own}}})
    assert "data.sets.mine" in str(refused.value)


@pytest.mark.parametrize("name", ["../../../x", "/tmp/x", "", "..", "-x", "a\nb", "x" * 81])
def test_a_name_that_is_no_name_is_refused_with_its_line(name, tmp_path):
    file = tmp_path / "own.yaml"
    settings = {"train": "x.csv", "text": ["t"], "labels": ["a", "b"]}
    file.write_text(f"data:\n  sets:\n    {json.dumps(name)}: {json.dumps(settings)}\n")
    with pytest.raises(ConfigError, match=r"(?s)own\.yaml:3  .*is no name for a data set.*allowed"):
        load(FinetuneConfig, path=file)


def test_a_version_or_a_split_may_be_a_name():
    entry = {"train": "x.csv", "text": ["t"], "labels": ["a", "b"]}
    sets = dict.fromkeys(("v1.2", "train"), entry)
    assert load(FinetuneConfig, base={"data": {"sets": sets}}).data.sets.keys() == sets.keys()


@pytest.mark.parametrize(
    "labels", [["a", "b", "a"], ["a", "b", " A"], ["not ok", "not-ok"], ["a_b", "A B", "c"]]
)
def test_labels_that_stand_twice_are_refused_with_their_line(labels, tmp_path):
    file = tmp_path / "own.yaml"
    own = f"{{train: x.csv, text: [t],\n      labels: {json.dumps(labels)}}}"
    file.write_text(f"data:\n  sets:\n    mine: {own}\n")
    with pytest.raises(
        ConfigError, match=r"own\.yaml:4 .*(?s:labels.*one label.*every label once)"
    ):
        load(FinetuneConfig, path=file)
