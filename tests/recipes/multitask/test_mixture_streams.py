"""What a mixture reads and draws."""

from __future__ import annotations

from itertools import islice

import pytest

from road_ray.config import load
from road_ray.data.tokenizer import load_tokenizer
from road_ray.errors import ConfigError
from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.multitask.mixture_streams import (
    check_mixing,
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


def test_more_passes_than_data_sets_need_replacement(made):
    with pytest.raises(ConfigError, match="allowed: at most 2"):
        check_mixing(made(passes=3, replacement=False)[0])
    check_mixing(made(passes=3)[0])
