"""What every family of encoders can do; the table of docs/guides/models.md."""

import pytest
from transformers import AutoConfig

import road_ray as rr
from tests.published import FAMILIES, publish
from tests.runs import plain_logits

SHORT = {"training.steps": 2, "data.max_length_tokens": 48, "optimizer.layer_decay": 0.8}
TEXTS = ["a moving and funny film", "Slow, dull and far too long!"]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def settings(sentiment, family, tmp_path_factory):
    """A fine-tuning of a published encoder without head."""
    init = publish(tmp_path_factory.mktemp("published") / family, family)
    return sentiment | SHORT | {"init": str(init)}


@pytest.fixture(scope="module")
def learned(settings, tmp_path_factory):
    """It has learnt several tasks."""
    mixture = {key: value for key, value in settings.items() if key != "data.dataset"}
    mixture |= {"data.datasets": ["sst2", "mnli"], "mixing.passes": 2}
    return rr.multitask(overrides=mixture, run_dir=tmp_path_factory.mktemp("runs") / "learned")


def test_it_learns_several_tasks_and_is_evaluated_and_loaded_by_plain_transformers(
    learned, world, tmp_path
):
    assert "eval/mnli/accuracy" in learned.metrics
    chosen = {"init": str(learned.hf_dir), "data.root": str(world), "data.datasets": ["sst2"]}
    again = rr.evaluate(overrides=chosen, run_dir=tmp_path / "evaluation").metrics
    assert again["eval/sst2/accuracy"] == learned.metrics["eval/sst2/accuracy"]
    shares = plain_logits(learned.hf_dir, TEXTS).softmax(-1)
    predicted = rr.load(learned.hf_dir, head="sentiment")(TEXTS)
    for ours, theirs in zip(predicted, shares, strict=True):
        assert list(ours["scores"].values()) == pytest.approx(theirs.tolist(), abs=1e-5)


def test_a_smaller_student_is_made_of_it_and_learns_from_teachers_of_two_tokenizers(
    family, settings, learned, teachers, tmp_path
):
    """One teacher has the tokenizer of the student, the other one has not."""
    named = [str(learned.hf_dir), str(teachers.directory / "teacher-0")]
    chosen = settings | {"distillation.teachers": named, "distillation.host": "process"}
    smaller = chosen | {"student.layers": 1}
    if family == "albert":  # all layers share the weights of one
        with pytest.raises(rr.errors.ConfigError, match="cannot be left out"):
            rr.distill(overrides=smaller, run_dir=tmp_path)
        smaller = chosen
    run = rr.distill(overrides=smaller, run_dir=tmp_path)
    assert "eval/sst2/accuracy" in run.metrics
    layers = AutoConfig.from_pretrained(run.hf_dir).num_hidden_layers
    assert layers == (2 if family == "albert" else 1)


def test_it_teaches_a_student_of_another_tokenizer(sentiment, learned, tmp_path):
    chosen = {"distillation.teachers": [str(learned.hf_dir)], "distillation.host": "process"}
    run = rr.distill(overrides=sentiment | SHORT | chosen, run_dir=tmp_path)
    assert "eval/sst2/accuracy" in run.metrics
