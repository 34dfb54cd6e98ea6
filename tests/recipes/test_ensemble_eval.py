"""Several models judged as one."""

from __future__ import annotations

import numpy as np
import pytest

from road_ray.data import catalog
from road_ray.data.load_split import load_split
from road_ray.data.tokenizer import load_tokenizer
from road_ray.evaluation.evaluate_split import evaluate_logits, logits_of
from road_ray.models.multitask import load_trained
from road_ray.recipes.evaluate import evaluate_ensemble
from road_ray.recipes.train.config import FinetuneConfig, FinetuneDataConfig
from road_ray.training.worker import Worker


@pytest.fixture
def named(teachers):
    return [str(teachers.directory / f"teacher-{number}" / "hf") for number in range(3)]


def test_it_is_the_mean_of_what_each_model_says(named, world):
    tokenizer = load_tokenizer(named[0])
    data = FinetuneDataConfig(root=str(world), dataset="sst2")
    split, task = load_split("sst2", "dev", data, tokenizer), catalog.task("sst2")
    pad_id, device = int(tokenizer.pad_token_id), Worker.alone().device
    apart = [
        logits_of(load_trained(name, task), split.features, pad_id=pad_id, device=device)
        for name in named
    ]
    expected = evaluate_logits(split, list(np.mean(apart, axis=0))).metrics
    figures = evaluate_ensemble(named, data, ["sst2"])
    assert figures == pytest.approx({f"eval/sst2/ensemble_{k}": v for k, v in expected.items()})


def test_one_model_together_is_that_model_on_spans_too(span_run, questions):
    """The threshold is tuned on one set and used on the other, as for a single model."""
    from road_ray.config import override

    config = override(FinetuneConfig(), questions)
    names = config.data.evaluate_on
    figures = evaluate_ensemble([span_run.directory], config.data, names, tune_on="squad_v2")
    alone = {k: v for k, v in span_run.metrics.items() if k.startswith("eval/")}
    assert {k.replace("ensemble_", ""): v for k, v in figures.items()} == pytest.approx(alone)
