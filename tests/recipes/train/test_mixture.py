"""What a mixture reads and draws."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from types import SimpleNamespace

import pytest

from road_ray.config import load
from road_ray.data.tokenizer import load_tokenizer
from road_ray.recipes.train.config import MultitaskConfig
from road_ray.recipes.train.mixture import Mixture
from road_ray.training.worker import Worker

ALONE = Worker.alone()


@pytest.fixture
def made(world, pretrained):
    """``made(**mixing)``: a mixture of two sentence sets, and their training splits."""

    def make(**mixing: object):
        chosen = {"data.root": str(world), "data.datasets": ["mnli", "rte"], "data.batch_size": 4}
        config = load(
            MultitaskConfig,
            overrides=chosen | {f"mixing.{name}": value for name, value in mixing.items()},
        )
        mixture, tokenizer = Mixture.of(config), load_tokenizer(pretrained.hf_dir)
        splits = {name: mixture.read(name, "train", tokenizer) for name in mixture.names}
        return mixture, splits

    return make


def test_data_sets_of_one_task_share_a_head_or_have_their_own(made):
    _, shared = made()
    mixture, own = made(heads="dataset")
    assert [split.task.name for split in own.values()] == ["mnli", "rte"]
    assert [split.features.task for split in own.values()] == ["mnli", "rte"]
    assert [task.name for task in mixture.tasks(own)] == ["mnli", "rte"]
    assert "mnli" not in [split.task.name for split in shared.values()]


@pytest.mark.parametrize("sampler", ["uniform_dataset", "annealed"])
def test_steps_from_the_middle_are_those_of_the_whole(made, sampler):
    mixture, splits = made(passes=2, replacement=False, sampler=sampler)
    streams = {name: mixture.stream(split, ALONE, 0) for name, split in splits.items()}

    def rows(start: int, count: int):
        steps = islice(mixture.steps(splits, streams, start, 6), count)
        return [[(b["dataset"], b["rows"].tolist(), b["stats"]) for b in step] for step in steps]

    whole = rows(0, 6)
    assert rows(4, 2) == whole[4:]
    assert all({name for name, *_ in step} == {"mnli", "rte"} for step in whole)
    assert whole[0][0][2] == {f"mix/{whole[0][0][0]}": float(len(whole[0][0][1]))}


def test_weights_and_draws_of_a_task_are_those_of_its_data_sets_with_heads_of_their_own():
    chosen = {"data.datasets": ["mnli", "snli", "cola"], "mixing.weights.nli": 0.5}
    chosen |= {"mixing.weights.snli": 2.0, "mixing.sampler": "uniform_task"}
    config = load(MultitaskConfig, overrides=chosen | {"mixing.heads": "dataset"})
    mixture = Mixture.of(config)
    assert mixture.loss_weights() == {"mnli": 0.5, "snli": 2.0, "cola": 1.0}
    rows = {name: SimpleNamespace(features=range(10)) for name in config.data.datasets}
    draw = mixture._draw(rows, 1000)
    drawn = Counter(name for step in range(1000) for name in draw(step))
    shares = [drawn[name] / (1000 * config.mixing.passes) for name in rows]
    assert shares == pytest.approx([0.25, 0.25, 0.5], abs=0.03)
