"""What every family of encoders can do; the table of docs/guides/models.md."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import road_ray as rr
from tests.published import FAMILIES, publish

SHORT = {"training.steps": 2, "data.max_length_tokens": 48, "optimizer.layer_decay": 0.8}
ALONE = {"distillation.host": "process", "distillation.num_teachers": 1}
TEXTS = ["a moving and funny film", "Slow, dull and far too long!"]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def init(family, tmp_path_factory):
    """A published encoder without head."""
    return publish(tmp_path_factory.mktemp("published") / family, family)


@pytest.fixture(scope="module")
def settings(sentiment, init):
    return sentiment | SHORT | {"init": str(init)}


@pytest.fixture(scope="module")
def finetuned(settings, tmp_path_factory):
    return rr.finetune(overrides=settings, run_dir=tmp_path_factory.mktemp("runs") / "finetuned")


def test_it_is_fine_tuned_evaluated_and_loaded_by_plain_transformers(finetuned, world, tmp_path):
    chosen = {"init": str(finetuned.hf_dir), "data.root": str(world), "console": "quiet"}
    again = rr.evaluate(overrides=chosen, run_dir=tmp_path / "evaluation").metrics
    assert again["eval/sst2/accuracy"] == finetuned.metrics["eval/sst2/accuracy"]
    model = AutoModelForSequenceClassification.from_pretrained(finetuned.hf_dir).eval()
    tokenizer = AutoTokenizer.from_pretrained(finetuned.hf_dir)
    with torch.no_grad():
        shares = model(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits.softmax(-1)
    for ours, theirs in zip(rr.load(finetuned.hf_dir)(TEXTS), shares, strict=True):
        assert list(ours["scores"].values()) == pytest.approx(theirs.tolist(), abs=1e-5)


def test_it_learns_several_tasks(settings, tmp_path):
    mixture = {key: value for key, value in settings.items() if key != "data.dataset"}
    mixture |= {"data.datasets": ["sst2", "mnli"], "mixing.passes": 2}
    run = rr.multitask(overrides=mixture, run_dir=tmp_path)
    assert {"eval/sst2/accuracy", "eval/mnli/accuracy"} <= run.metrics.keys()


def test_it_teaches_a_student_of_its_tokenizer(settings, finetuned, tmp_path):
    teacher = {"distillation.teachers": [str(finetuned.directory)]}
    run = rr.distill(overrides=settings | ALONE | teacher, run_dir=tmp_path)
    assert "eval/sst2/accuracy" in run.metrics


def test_it_teaches_a_student_of_another_tokenizer(sentiment, finetuned, tmp_path):
    teacher = {"distillation.teachers": [str(finetuned.directory)]}
    run = rr.distill(overrides=sentiment | SHORT | ALONE | teacher, run_dir=tmp_path)
    assert "eval/sst2/accuracy" in run.metrics


def test_it_is_the_student_of_teachers_of_another_tokenizer(settings, teachers, tmp_path):
    chosen = {"distillation.teachers": [str(teachers.directory / "teachers.json")]}
    chosen |= {"distillation.host": "process"}
    run = rr.distill(overrides=settings | chosen, run_dir=tmp_path)
    assert "eval/sst2/accuracy" in run.metrics


def test_a_smaller_student_is_made_of_it(family, settings, tmp_path):
    chosen = settings | {"student.layers": 1}
    if family == "albert":  # all layers share the weights of one
        with pytest.raises(rr.errors.ConfigError, match="cannot be left out"):
            rr.finetune(overrides=chosen, run_dir=tmp_path)
        return
    run = rr.finetune(overrides=chosen, run_dir=tmp_path)
    model = AutoModelForSequenceClassification.from_pretrained(run.hf_dir)
    assert model.config.num_hidden_layers == 1
