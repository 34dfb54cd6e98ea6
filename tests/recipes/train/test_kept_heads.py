"""Which heads of ``init`` fine-tuning keeps: in the model, in one line and in the record."""

from __future__ import annotations

import json
import shutil

import pytest
from safetensors.torch import load_file

import road_ray as rr
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.published import publish

POOLER = "bert.pooler.dense.weight"


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return publish(tmp_path_factory.mktemp("models") / "bert", "bert", "ForPreTraining")


def initialized(run):
    rows = read_rows(run.directory / "events.jsonl")
    [event] = [row for row in rows if row["kind"] == "initialized"]
    return event["kept"], event["new"]


def test_the_pooler_of_a_bert_begins_a_head(bert, sentiment, tmp_path, caplog):
    chosen = {"init": str(bert), "data.dataset": "mnli", "optimizer.peak_lr": 1e-12}
    chosen |= {"data.max_rows": 32, "training.steps": 1, "console": "plain"}
    caplog.set_level("INFO")
    run = rr.finetune(overrides=sentiment | chosen, run_dir=tmp_path)
    before, after = (load_file(d / "model.safetensors") for d in (bert, run.hf_dir))
    assert after[POOLER].allclose(before[POOLER], atol=1e-7)
    remaining, new = initialized(run)
    assert remaining == ["pooler"]
    assert f"init = {bert}: heads kept: pooler; new: {new[0]}" in caplog.text


def test_a_mixture_keeps_the_pooler_for_its_sentence_heads(bert, sentiment, tmp_path):
    chosen = {key: value for key, value in sentiment.items() if key != "data.dataset"}
    chosen |= {"init": str(bert), "data.datasets": ["sst2", "mnli"], "training.steps": 1}
    run = rr.multitask(overrides=chosen, run_dir=tmp_path)
    assert initialized(run) == (["pooler"], ["sentiment", "nli"])


def test_the_head_of_a_trained_model_is_kept_if_asked(teachers, sentiment, tmp_path):
    teacher = str(teachers.directory / "teacher-0")
    for keep, expected in (("all", (["sentiment"], [])), ("encoder", ([], ["sentiment"]))):
        chosen = {"init": teacher, "init_weights": keep, "training.steps": 1}
        run = rr.finetune(overrides=sentiment | chosen, run_dir=tmp_path / keep)
        assert initialized(run) == expected


def test_labels_of_a_kept_head_are_refused_or_mapped(teachers, sentiment, tmp_path, road, flags):
    renamed = shutil.copytree(teachers.directory / "teacher-0" / "hf", tmp_path / "renamed")
    output = json.loads((renamed / "config.json").read_text())
    names = {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
    (renamed / "config.json").write_text(json.dumps(output | names))
    chosen = sentiment | {"init": str(renamed), "training.steps": 1, "run_dir": tmp_path / "run"}
    result = road("finetune", *flags(chosen))
    line = "label_map='{LABEL_0: negative, LABEL_1: positive}'"
    assert result.code == 4
    assert line in result.err
    result = road("finetune", *flags(chosen), line.replace("'", ""))
    assert result.code == 0, result.err
