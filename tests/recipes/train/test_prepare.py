"""Model, rows and loss of a supervised training."""

import json
import logging
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.torch import load_file
from sklearn.utils.class_weight import compute_class_weight
from transformers import AutoModelForSequenceClassification

import road_ray as rr
from road_ray.data.config import SourceConfig
from road_ray.data.examples import SpanExample, TextExample
from road_ray.data.load_split import load_split
from road_ray.data.task_and_dataset import Classify, Task
from road_ray.data.tokenizer import load_tokenizer
from road_ray.errors import ConfigError
from road_ray.recipes.train.config import StudentConfig
from road_ray.recipes.train.prepare import _class_weights, count_overlap
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.published import publish
from tests.runs import name_labels, weights


def split(labels):
    features = SimpleNamespace(gold={"labels": np.array(labels)})
    return SimpleNamespace(task=Task("t", Classify(("a", "b", "c"))), features=features)


def test_balanced_weights_are_those_of_scikit_learn_and_those_by_label_1_for_others():
    labels = [0] * 6 + [1] * 3 + [2]
    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    assert _class_weights("balanced", split([*labels, -100])).tolist() == pytest.approx(expected)
    without = _class_weights("balanced", split([0, 0, 0, 1]))  # 4 / (2 * 3), 4 / (2 * 1)
    assert without.tolist() == pytest.approx([2 / 3, 2.0, 1.0])
    assert _class_weights({"c": 4.0}, split([0])).tolist() == [1.0, 1.0, 4.0]


@pytest.mark.trained
def test_training_follows_the_weights_and_equal_ones_change_nothing(sentiment, tmp_path):
    def trained(name, **more):
        keys = sentiment | {"training.steps": 2} | more
        return weights(rr.finetune(overrides=keys, run_dir=tmp_path / name))

    plain = trained("plain")
    ones = {"data.class_weights": {"positive": 1.0, "negative": 1.0}}
    assert trained("ones", **ones) == plain
    assert trained("nine", **{"data.class_weights": {"positive": 9.0}}) != plain
    assert trained("smooth", **{"data.label_smoothing": 0.1}) != plain


def row(*texts: str, label: str | None = "0") -> TextExample:
    return TextExample("1", texts, label, "train.tsv:2")


def test_examples_in_both_train_and_dev_are_counted(world, pretrained, caplog):
    tokenizer = load_tokenizer(pretrained.hf_dir)
    dev = load_split("mnli", "dev", SourceConfig(root=str(world)), tokenizer)
    train = replace(dev, examples=dev.examples[:3])
    assert count_overlap(train, dev) == 3
    assert f"mnli: 3 of {len(dev.examples)} dev examples are in the train split" in caplog.text
    assert f"the first: {dev.examples[0].where}, which is {train.examples[0].where}" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert count_overlap(replace(dev, examples=[]), dev) == 0
    assert caplog.text == ""
    train = replace(dev, examples=[row("a", "b"), row("c", "d")])
    dev = replace(dev, examples=[row("c", "d", label="1"), row("c", "d"), row("b", "a")])
    assert count_overlap(train, dev) == 2
    spans = replace(dev, examples=[SpanExample("1", "q", "c", (), "f")])
    assert count_overlap(spans, spans) == 1


@pytest.mark.parametrize(
    ("layers", "expected"),
    [(3, (0, 2, 4)), (4, (0, 1, 3, 4)), (6, (*range(6),)), ((0, 5), (0, 5)), (None, (*range(6),))],
)
def test_chosen_layers_of_six(layers, expected):
    assert StudentConfig(layers=layers).chosen(6) == expected


@pytest.mark.parametrize("layers", [0, 7, (0, 6), (2, 1), (1, 1), (), (-1, 0)])
def test_layers_that_init_does_not_have_are_refused(layers):
    with pytest.raises(ConfigError, match="init has 6 layers"):
        StudentConfig(layers=layers).chosen(6)


def test_a_student_of_one_layer_is_a_plain_model_with_the_weights_of_that_layer(
    sentiment, pretrained, tmp_path
):
    size = json.loads((pretrained.hf_dir / "config.json").read_text())["num_hidden_layers"]
    chosen = {"student.layers": [size - 1], "training.steps": 1, "optimizer.peak_lr": 1e-12}
    run = rr.finetune(overrides=sentiment | chosen, run_dir=tmp_path)
    model = AutoModelForSequenceClassification.from_pretrained(run.hf_dir)
    assert model.config.num_hidden_layers == 1
    student, init = (load_file(d / "model.safetensors") for d in (run.hf_dir, pretrained.hf_dir))
    key = "electra.encoder.layer.{}.output.dense.weight"
    assert student[key.format(0)].allclose(init[key.format(size - 1)], atol=1e-6)
    record = json.loads((run.hf_dir / "road_ray.json").read_text())
    assert record["layers_of_init"] == [size - 1]
    assert record["parameters"] == sum(p.numel() for p in model.parameters())


def initialized(run):
    rows = read_rows(run.directory / "events.jsonl")
    [event] = [row for row in rows if row["kind"] == "initialized"]
    return event["kept"], event["new"]


def test_the_pooler_of_a_bert_begins_a_head(sentiment, tmp_path, caplog):
    bert = publish(tmp_path / "bert", "bert", "ForPreTraining")
    chosen = {"init": str(bert), "data.dataset": "mnli", "optimizer.peak_lr": 1e-12}
    chosen |= {"data.max_rows": 32, "training.steps": 1, "console": "plain"}
    caplog.set_level("INFO")
    run = rr.finetune(overrides=sentiment | chosen, run_dir=tmp_path / "run")
    before, after = (load_file(d / "model.safetensors") for d in (bert, run.hf_dir))
    name = "bert.pooler.dense.weight"
    assert after[name].allclose(before[name], atol=1e-7)
    remaining, new = initialized(run)
    assert remaining == ["pooler"]
    assert f"init = {bert}: heads kept: pooler; new: {new[0]}" in caplog.text


def test_the_head_of_a_trained_model_is_kept_if_asked(teachers, sentiment, tmp_path):
    teacher = str(teachers.directory / "teacher-0")
    for keep, expected in (("all", (["sentiment"], [])), ("encoder", ([], ["sentiment"]))):
        chosen = {"init": teacher, "init_weights": keep, "training.steps": 1}
        run = rr.finetune(overrides=sentiment | chosen, run_dir=tmp_path / keep)
        assert initialized(run) == expected


def test_labels_of_a_kept_head_are_refused_or_mapped(teachers, sentiment, tmp_path, road, flags):
    renamed = shutil.copytree(teachers.directory / "teacher-0" / "hf", tmp_path / "renamed")
    name_labels(renamed, "LABEL_0", "LABEL_1")
    chosen = sentiment | {"init": str(renamed), "training.steps": 1, "run_dir": tmp_path / "run"}
    line = "label_map='{LABEL_0: negative, LABEL_1: positive}'"
    road("finetune", *flags(chosen)).refused(4, line)
    road("finetune", *flags(chosen), line.replace("'", "")).good()
