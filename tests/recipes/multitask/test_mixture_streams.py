"""What a mixture reads and draws."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace

import pytest

from road_ray.config import load
from road_ray.data.tokenizer import load_tokenizer
from road_ray.errors import ConfigError
from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.multitask.mixture_streams import (
    _chances,
    check_mixing,
    loss_weights,
    make_stream,
    mixed_steps,
    read_mixture,
)
from road_ray.training.worker import Worker

ALONE = Worker.alone()


@pytest.fixture
def made(world, pretrained):
    """``made(**mixing)``: configuration, tokenizer and splits of two sentence sets."""

    def make(**mixing: object):
        chosen = {"data.root": str(world), "data.datasets": ["mnli", "rte"], "data.batch_size": 4}
        config = load(
            MultitaskConfig,
            overrides=chosen | {f"mixing.{name}": value for name, value in mixing.items()},
        )
        tokenizer = load_tokenizer(pretrained.hf_dir)
        return config, tokenizer, *read_mixture(config, ALONE, tokenizer, 128)

    return make


def test_data_sets_of_one_task_share_a_head_or_have_their_own(made):
    *_, shared, _ = made()
    *_, own, judged = made(heads="dataset")
    assert [split.task.name for split in own.values()] == ["mnli", "rte"]
    assert [split.features.task for split in judged.values()] == ["mnli", "rte"]
    assert "mnli" not in [split.task.name for split in shared.values()]


def test_steps_from_the_middle_are_those_of_the_whole(made):
    config, tokenizer, splits, _ = made(passes=2, replacement=False)
    streams = {name: make_stream(split, config, ALONE, tokenizer) for name, split in splits.items()}

    def rows(start: int, count: int):
        steps = islice(mixed_steps(config, splits, streams, start), count)
        return [[(b["dataset"], b["rows"].tolist(), b["stats"]) for b in step] for step in steps]

    whole = rows(0, 6)
    assert rows(4, 2) == whole[4:]
    assert all({name for name, *_ in step} == {"mnli", "rte"} for step in whole)
    assert whole[0][0][2] == {f"mix/{whole[0][0][0]}": float(len(whole[0][0][1]))}


def test_weights_and_chances_of_a_task_are_those_of_its_data_sets_with_heads_of_their_own():
    chosen = {"data.datasets": ["mnli", "snli", "cola"], "mixing.weights.nli": 0.5}
    chosen |= {"mixing.weights.snli": 2.0, "mixing.sampler": "uniform_task"}
    config = load(MultitaskConfig, overrides=chosen | {"mixing.heads": "dataset"})
    assert loss_weights(config) == {"mnli": 0.5, "snli": 2.0, "cola": 1.0}
    rows = {name: SimpleNamespace(features=range(10)) for name in config.data.datasets}
    assert _chances(config, rows) == pytest.approx([0.25, 0.25, 0.5])


def test_more_passes_than_data_sets_need_replacement(made):
    with pytest.raises(ConfigError, match="allowed: at most 2"):
        check_mixing(made(passes=3, replacement=False)[0])
    check_mixing(made(passes=3)[0])
