"""Multi-task training mixes data sets, leaves a head each, and tells mistakes at once."""

from __future__ import annotations

import json

import pytest

import road_ray as rr
from road_ray.training.monitoring.metrics_journal import read_rows


@pytest.fixture(scope="session")
def mix(questions) -> dict[str, object]:
    dropped = ("data.dataset", "data.evaluate_on")
    remaining = {key: value for key, value in questions.items() if key not in dropped}
    chosen = {"data.datasets": ["sst2", "squad_v2", "mnli"], "data.batch_size": 4}
    return remaining | chosen | {"training.steps": 4, "mixing.passes": 2}


@pytest.fixture(scope="session")
def mixture(mix, tmp_path_factory):
    return rr.multitask(overrides=mix, run_dir=tmp_path_factory.mktemp("runs") / "mixture")


def test_the_mixture_is_judged_on_the_way_when_asked(mix, tmp_path):
    rr.multitask(overrides=mix | {"training.evaluate_every_steps": 2}, run_dir=tmp_path)
    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows if "eval/squad_v2/f1" in row] == [2, 4]


def test_every_task_has_a_head_and_figures(mixture):
    for name, figure in {"sst2": "accuracy", "squad_v2": "f1", "mnli": "accuracy"}.items():
        assert f"eval/{name}/{figure}" in mixture.metrics
    heads = {path.name: path for path in (mixture.hf_dir / "heads").iterdir()}
    assert set(heads) == {"sentiment", "mrc", "nli"}
    for place in heads.values():
        assert (place / "tokenizer.json").is_file()
        limit = json.loads((place / "tokenizer_config.json").read_text())["model_max_length"]
        assert limit == json.loads((place / "config.json").read_text())["max_position_embeddings"]
        assert (place / "model.safetensors").is_file()


def test_the_span_head_keeps_its_threshold(mixture, road, world, tmp_path):
    head = mixture.hf_dir / "heads" / "mrc"
    stored = json.loads((head / "road_ray.json").read_text())["no_answer_threshold"]
    assert stored == mixture.metrics["eval/squad_v2/threshold"]
    other = json.loads((mixture.hf_dir / "heads" / "nli" / "road_ray.json").read_text())
    assert other["no_answer_threshold"] is None
    spans = ["data.max_length_tokens=96", "data.stride_tokens=16", "data.max_question_tokens=32"]
    where = [f"init={head}", f"data.root={world}", "data.datasets=[squad_v2]", *spans]
    result = road("evaluate", *where, "--run-dir", tmp_path, "--json")
    figures = json.loads(result.out)["metrics"]
    for name, value in figures.items():
        assert value == pytest.approx(mixture.metrics[name]), name


def test_the_next_stage_starts_from_it(mixture, sentiment, tmp_path):
    overrides = sentiment | {"init": str(mixture.directory), "training.steps": 1}
    assert rr.finetune(overrides=overrides, run_dir=tmp_path).hf_dir.is_dir()


@pytest.mark.parametrize(
    ("changed", "code", "message"),
    [
        ({"data.datasets": ["sst2", "sst2"]}, 2, "one is named twice"),
        ({"data.datasets": []}, 2, "data.datasets"),
        ({"data.datasets": ["sst2", "newsqa"]}, 2, "'newsqa' has no train split"),
        ({"mixing.passes": 4, "mixing.replacement": "false"}, 2, "allowed: at most 3"),
        ({"mixing.weights.mnly": 2.0}, 2, "no data set or task of the mix"),
        ({"mixing.weights.nli": -1.0}, 2, "allowed: 0 or more"),
        ({"mixing.passes": 0}, 2, "mixing.passes = 0"),
        ({"training.passes": 2}, 2, "mixing.passes=2"),
        ({"training.steps": "null"}, 2, "training.steps is not given"),
        ({"init": ""}, 2, "init is not given"),
        ({"data.max_length_tokens": 512, "data.datasets": ["squad_v2"]}, 2, "128 positions"),
    ],
)
def test_mistakes_are_told(road, flags, mix, tmp_path, changed, code, message):
    result = road("multitask", *flags(mix | changed), "--run-dir", tmp_path)
    assert result.code == code
    assert message in result.err


def test_the_journal_says_which_mix_was_realised(mixture):
    rows = read_rows(mixture.directory / "metrics.jsonl")
    seen = sum(v for row in rows for name, v in row.items() if name.startswith("mix/"))
    assert seen == 4 * 2 * 4


def test_every_data_set_may_have_its_own_head_and_weight(mix, questions, tmp_path):
    settings = {"data.datasets": ["squad_v2", "mnli", "rte"], "mixing.heads": "dataset"}
    settings |= {"mixing.weights": {"mnli": 0.0}, "mixing.sampler": "size_power"}
    run = rr.multitask(overrides=mix | settings, run_dir=tmp_path / "mix")
    assert {p.name for p in (run.hf_dir / "heads").iterdir()} == {"squad_v2", "mnli", "rte"}
    assert "eval/mnli/accuracy" in run.metrics
    tuned = {"init": str(run.directory), "training.steps": 1, "optimizer.peak_lr": 1e-12}
    tuned |= {"data.evaluate_on": ["squad_v2"]}
    again = rr.finetune(overrides=questions | tuned, run_dir=tmp_path / "tuned")
    for name in ("exact", "f1", "best_f1"):  # the head of its data set was kept
        key = f"eval/squad_v2/{name}"
        assert again.metrics[key] == pytest.approx(run.metrics[key], abs=1e-6)
    judged = {"data.root": mix["data.root"], "init": str(run.directory), "data.datasets": ["rte"]}
    values = rr.evaluate(overrides=judged, run_dir=tmp_path / "judged").metrics
    assert values["eval/rte/accuracy"] == run.metrics["eval/rte/accuracy"]
