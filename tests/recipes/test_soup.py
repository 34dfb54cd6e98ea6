"""Several models as one: the mean of their weights, against numpy, and that of their logits."""

import json
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import road_ray as rr
from road_ray.data import catalog
from road_ray.data.load_split import load_split
from road_ray.data.tokenizer import load_tokenizer
from road_ray.errors import CheckpointError, ConfigError
from road_ray.evaluation.evaluate_split import batched_logits, evaluate_logits
from road_ray.models.multitask import load_trained
from road_ray.recipes.config import CombineConfig
from road_ray.recipes.evaluate import average_models, combine, evaluate_ensemble, greedy_members
from road_ray.recipes.train.config import FinetuneConfig, FinetuneDataConfig
from tests.runs import edit
from tests.tiny_teacher import LABELS, make_teacher


@pytest.fixture
def models(tmp_path):
    return [make_teacher(tmp_path / f"model-{seed}", seed) for seed in range(3)]


def change(model, tensors):
    """``tensors(stored)`` in the place of those that are stored."""
    path = model / "model.safetensors"
    save_file(tensors(load_file(path)), path, metadata={"format": "pt"})


def test_a_soup_is_the_mean_of_the_weights_and_answers_as_a_model(models, tmp_path):
    for model in models:  # an integer, as older versions store the positions
        change(model, lambda x: x | {"electra.embeddings.position_ids": np.arange(32)})
    average_models(models, tmp_path / "soup")
    mean = load_file(tmp_path / "soup" / "model.safetensors")
    every = [load_file(model / "model.safetensors") for model in models]
    assert mean.keys() == every[0].keys()
    for name, tensor in mean.items():
        expected = np.mean([one[name].astype(np.float64) for one in every], 0)
        assert tensor.dtype == every[0][name].dtype
        np.testing.assert_allclose(tensor, expected, rtol=1e-6)
    record = json.loads((tmp_path / "soup" / "road_ray.json").read_text())
    assert record["averaged"] == list(map(str, models))
    row = {"text": "a good film", "text_pair": "a film"}
    assert "contradiction" in rr.load(str(tmp_path / "soup"))([row])[0]["scores"]


def test_a_greedy_soup_keeps_what_does_not_lower_the_score():
    """Alone b 0.9, c 0.8, a 0.7. With c 0.85 < 0.9, so c is left; with a 0.9 is kept."""
    scores = {"a": 0.7, "b": 0.9, "c": 0.8, "bc": 0.85, "ba": 0.9}
    asked = []

    def score(chosen):
        asked.append("".join(map(str, chosen)))
        return scores[asked[-1]]

    assert greedy_members([*map(Path, "abc")], score) == [Path("b"), Path("a")]
    assert asked == ["a", "b", "c", "bc", "ba"]


def test_members_of_a_soup_are_compared_under_the_limits_of_the_first(
    models, tmp_path, monkeypatch
):
    for model, length in zip(models, (32, 24, 16), strict=True):
        (model / "road_ray.json").write_text(json.dumps({"max_length_tokens": length}))
    members = [{"directory": str(model)} for model in models]
    (tmp_path / "teachers.json").write_text(json.dumps({"teachers": members}))
    alike = Mock(return_value={"eval/mnli/ensemble_accuracy": 50.0})
    monkeypatch.setattr("road_ray.recipes.evaluate.evaluate_ensemble", alike)
    keys = {"combine": "greedy", "init": str(tmp_path / "teachers.json")}
    combine(CombineConfig(run_dir=tmp_path / "soup", data={"datasets": ["mnli"]}, **keys))
    lengths = [call.args[1].max_length_tokens for call in alike.call_args_list]
    assert lengths == [32] * 6  # three alone, two joined, the soup


def other_integers(model):
    """Labels of a head of the user's own, in another order."""
    for number, place in enumerate(model.parent.glob("model-*")):
        change(place, lambda x, n=number: x | {"order": np.arange(3) + n})


def other_tokenizer(model):
    text = (model / "tokenizer.json").read_text()
    (model / "tokenizer.json").write_text(text.replace('"film"', '"movie"'))


ROWS = [
    (lambda m: edit(m / "config.json", id2label=dict(enumerate(LABELS[::-1]))), "id2label differs"),
    (lambda m: edit(m / "config.json", intermediate_size=16), "intermediate_size differs"),
    (lambda m: change(m, lambda x: {f"a.{n}": x[n] for n in x}), "its weights are not those of"),
    (lambda m: change(m, lambda x: {n: x[n] * np.nan for n in x}), "is not finite"),
    (other_integers, "the integers order differ from those of"),
    (other_tokenizer, "another tokenizer"),
]


@pytest.mark.parametrize(("damage", "message"), ROWS)
def test_models_that_cannot_be_averaged_are_refused(models, damage, message, tmp_path):
    damage(models[1])
    with pytest.raises(CheckpointError, match=message):
        average_models(models, tmp_path / "soup")
    assert not (tmp_path / "soup").exists()


def test_it_is_the_mean_of_what_each_model_says(teachers, world, monkeypatch):
    """In fp32, also where teachers answer in bf16."""
    named = [str(teachers.directory / f"teacher-{number}" / "hf") for number in range(3)]
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx512_bf16": True})
    monkeypatch.setattr("road_ray.models.precision._LEAST_BF16_WIDTH", 1)
    scored = Mock(side_effect=evaluate_logits)
    monkeypatch.setattr("road_ray.recipes.evaluate.evaluate_logits", scored)
    tokenizer = load_tokenizer(named[0])
    data = FinetuneDataConfig(root=str(world), dataset="sst2")
    split, task = load_split("sst2", "dev", data, tokenizer), catalog.task("sst2")
    pad_id = int(tokenizer.pad_token_id)
    models = [load_trained(name, task).eval() for name in named]
    apart = [batched_logits(model, split.features, task.kind, pad_id) for model in models]
    expected = evaluate_logits(split, list(np.mean(apart, axis=0))).metrics
    figures = evaluate_ensemble(named, data, ["sst2"])
    assert figures == pytest.approx({f"eval/sst2/ensemble_{k}": v for k, v in expected.items()})
    np.testing.assert_allclose(scored.call_args.args[1], np.mean(apart, axis=0), atol=1e-5)


def test_rows_longer_than_a_model_reads_are_refused(models, world):
    data = FinetuneDataConfig(root=str(world), dataset="mnli", max_length_tokens=128)
    with pytest.raises(ConfigError, match="the model knows 32 positions"):
        evaluate_ensemble(models, data, ["mnli"])


def test_one_model_together_is_that_model_on_spans_too(span_run, questions):
    """The threshold is tuned on one set and used on the other, as for a single model."""
    from road_ray.config import override

    config = override(FinetuneConfig(), questions)
    names = config.data.evaluate_on
    figures = evaluate_ensemble([span_run.directory], config.data, names, tune_on="squad_v2")
    alone = {k: v for k, v in span_run.metrics.items() if k.startswith("eval/")}
    assert {k.replace("ensemble_", ""): v for k, v in figures.items()} == pytest.approx(alone)
