"""Predicted metric names equal those that runs report; a warning before anything starts."""

import json
from contextlib import nullcontext

import pytest

from road_ray.config import load, override
from road_ray.errors import ConfigError
from road_ray.objectives.pretraining.registry import OBJECTIVES
from road_ray.recipes.preflight_checks import check_stopping_metric, warn_of_rates
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.sweep.trials import final_metrics, periodic_metrics
from road_ray.recipes.train.config import FinetuneConfig
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.verbs import configure, preset_config


def test_spans_in_and_out_of_domain(span_run):
    metrics = final_metrics(preset_config("squad_v2_small"))
    assert set(metrics) <= set(span_run.metrics)
    assert "eval/newsqa/at_threshold_f1" in metrics


def test_pretraining(pretrained):
    assert set(final_metrics(PretrainConfig())) <= set(pretrained.metrics)
    rows = read_rows(pretrained.directory / "metrics.jsonl")
    assert set(periodic_metrics(PretrainConfig())) <= set(rows[0])
    json.dumps(rows)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_has_metrics_for_a_sweep(objective):
    config = PretrainConfig.model_validate({"objective": {"name": objective}})
    assert len(final_metrics(config)) >= 2


def test_during_a_run_only_what_is_evaluated_and_at_its_end_the_metrics_of_each_kind():
    assert periodic_metrics(FinetuneConfig()) == []
    multitask = preset_config("road_base")
    assert "eval/mnli/accuracy" in final_metrics(multitask)
    files = {"train": "t.csv", "text": ["a"], "kind": "regress"}
    config = load(FinetuneConfig, base={"data": {"dataset": "mine", "sets": {"mine": files}}})
    assert final_metrics(config) == ["eval/mine/pearson", "eval/mine/spearman"]


LATE = "eval/advglue_sst2/accuracy"  # evaluated at the end only


@pytest.mark.parametrize(
    ("verb", "keys", "metric", "message"),
    [
        ("finetune", {"data.dataset": "mrpc"}, "eval/mrpc/f1", None),
        ("finetune", {"data.dataset": "mrpc"}, "f1", "not evaluated while"),
        ("finetune", {"data.dataset": "mrpc"}, "eval/mrpc/matthews", "not evaluated while"),
        ("finetune", {"data.evaluate_on": ["sst2", "advglue_sst2"]}, LATE, "not evaluated while"),
        ("finetune", {"data.dataset": "squad_v2"}, "eval/squad_v2/HasAns_f1", None),
        ("multitask", {"data.datasets": ["rte", "cola"]}, "eval/cola/matthews", None),
        ("finetune", {"training.evaluate_every_steps": None}, None, "nothing is evaluated while"),
    ],
)
def test_the_metric_of_early_stopping_is_checked_first(verb, keys, metric, message):
    stopping = {"training.early_stopping.patience": 2, "training.early_stopping.metric": metric}
    config = override(configure(verb), {"training.evaluate_every_steps": 5} | stopping | keys)
    with pytest.raises(ConfigError, match=message) if message else nullcontext():
        check_stopping_metric(config)


@pytest.mark.parametrize(
    ("family", "given", "warns"),
    [
        ("bert", {}, True),
        ("bert", {"optimizer.peak_lr": 5e-5, "optimizer.layer_decay": 1.0}, False),
        ("electra", {}, False),
    ],
)
def test_a_line_warns_of_the_rates_of_another_family(family, given, warns, caplog):
    warn_of_rates(configure("finetune", overrides=given), family)
    assert ("try optimizer.peak_lr=5e-5 optimizer.layer_decay=1" in caplog.text) is warns
