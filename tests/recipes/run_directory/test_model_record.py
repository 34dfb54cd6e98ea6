"""Heads and thresholds come along from a model of the same task, and only from such a one."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

import road_ray as rr
from road_ray.config import load
from road_ray.data.catalog import TASKS
from road_ray.data.tokenizer import load_tokenizer
from road_ray.errors import CheckpointError
from road_ray.recipes.run_directory.model_record import (
    atomic_directory,
    stored_threshold,
    trained_head,
    trained_limits,
)
from road_ray.recipes.train.config import FinetuneConfig
from road_ray.recipes.train.prepare import prepare
from road_ray.training.worker import Worker


def test_a_run_of_the_task_has_its_head_and_another_has_none(span_run, pretrained):
    assert trained_head(span_run.hf_dir, TASKS["mrc"]) == span_run.hf_dir
    assert trained_head(span_run.hf_dir, TASKS["sentiment"]) is None
    assert trained_head(pretrained.hf_dir, TASKS["mrc"]) is None


@pytest.mark.parametrize("at", ["hf", "checkpoints/step-00000006/hf"])
def test_runs_and_checkpoints_record_the_files_that_decide_what_a_model_computes(
    span_run, tmp_path, at
):
    model = shutil.copytree(span_run.directory / at, tmp_path / "model")
    output = json.loads((model / "road_ray.json").read_text())
    assert {"model.safetensors", "tokenizer.json", "tokenizer_config.json"} == set(output["files"])
    (model / "tokenizer.json").write_text((model / "tokenizer.json").read_text() + " ")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: .*road_ray\.json records"):
        load_tokenizer(model)


@pytest.fixture(scope="module")
def mixture(questions, tmp_path_factory):
    several = {k: v for k, v in questions.items() if k not in ("data.dataset", "data.evaluate_on")}
    place = tmp_path_factory.mktemp("runs") / "mixture"
    return rr.multitask(
        overrides=several
        | {"data.datasets": ["sst2", "squad_v2"], "training.steps": 3, "run_dir": str(place)}
    )


def test_fine_tuning_goes_on_with_the_head_that_the_mixture_trained(mixture, questions):
    settings = questions | {"init": str(mixture.directory)}
    remaining = prepare(load(FinetuneConfig, overrides=settings), Worker())
    fresh = prepare(
        load(FinetuneConfig, overrides=settings | {"init_weights": "encoder"}), Worker()
    )
    stored = trained_head(mixture.hf_dir, TASKS["mrc"])
    assert stored == mixture.hf_dir / "heads" / "mrc"
    from transformers import AutoModelForQuestionAnswering

    head = AutoModelForQuestionAnswering.from_pretrained(stored).qa_outputs.weight
    kept, new = (
        next(weight for weight in made.model.heads["mrc"].parameters() if weight.ndim == 2)
        for made in (remaining, fresh)
    )
    assert torch.equal(kept, head)
    assert not torch.equal(new, head)


@pytest.mark.parametrize(
    "content",
    ["", "null", "[]", '{"no_answer_threshold": "high", "max_length_tokens": true}'],
)
def test_a_damaged_record_of_a_model_is_named(tmp_path, content):
    (tmp_path / "road_ray.json").write_text(content)
    for read in (stored_threshold, trained_limits):
        with pytest.raises(CheckpointError) as refused:
            read(tmp_path)
        assert str(refused.value).startswith(f"{tmp_path / 'road_ray.json'}: ")


def test_a_directory_that_cannot_be_written_whole_leaves_what_was_there(tmp_path):
    def write(text, error=None):
        with atomic_directory(tmp_path / "hf") as staged:
            (staged / "config.json").write_text(text)
            if error:
                raise error

    write("1")
    with pytest.raises(OSError, match="No space"):
        write("2", OSError(28, "No space left on device"))
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]
    assert (tmp_path / "hf" / "config.json").read_text() == "1"
