"""Ranges have exactly one kind and are not empty; limits of samplers are checked."""

import pytest

from road_ray.config import InvalidConfig, load
from road_ray.distributed.tune.search_config import (
    Range,
    SearchConfig,
    decode_params,
    encode_choice,
    grid_of,
)

SPACE = {"a.b": {"uniform": [0, 1]}}


def search(**values):
    return load(SearchConfig, overrides={"metric": "m", "space": SPACE} | values)


RANGES = [
    ({"uniform": [1, 1]}, "empty"),
    ({"uniform": [2, 1]}, "empty"),
    ({"int": [3, 3]}, "empty"),
    ({"loguniform": [0, 1]}, "touches 0"),
    ({"choice": []}, "a non-empty list"),
    ({"uniform": [0, 1], "int": [0, 1]}, "uniform and int given"),
    ({}, "exactly one of"),
    ({"uniform": [0, 1], "unifrom": [0, 2]}, "unifrom(?s:.)*no such key(?s:.)*: uniform, "),
]
TWO = {"metric": ["m", "n"], "mode": ["max", "min"]}
CHOSEN = {"space": {"b": {"choice": [1, 2]}}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        *(({"space": {"a.b": scope}}, message) for scope, message in RANGES),
        ({"scheduler": "pbt"}, "asha"),
        ({"scheduler": "abc"}, "asha"),
        ({"sampler": "grid"}, "whole numbers or choices"),
        ({"metric": ["m", "n"], "mode": ["max"]}, "a mode for each"),
        (TWO, "scheduler: none"),
        (TWO | {"scheduler": "none", "sampler": "gp"}, "nsga2"),
        ({"points": [{"a.c": 1}]}, "a.c"),
        (CHOSEN | {"points": [{"b": 3}]}, r"b = 3 is none of its values: choice \[1, 2\]"),
        ({"points": [{"b": 5.0}], "space": {"b": {"uniform": [0, 1]}}}, r"uniform \[0.0, 1.0\]"),
        ({"points": [{"b": None}], "space": {"b": {"uniform": [0, 1]}}}, "b = None is none of"),
        ({"points": [{"b": 2.5}], "space": {"b": {"int": [1, 4]}}}, "b = 2.5 is none of its"),
        ({"trials": 0}, "value >= 1"),
    ],
)
def test_an_empty_range_and_what_does_not_go_together_are_refused(values, message):
    with pytest.raises(InvalidConfig, match=message):
        search(**values)


def test_nested_overrides_reach_the_dotted_keys_of_the_file():
    config = load(
        SearchConfig,
        base={"metric": "m", "space": {"a.b": {"uniform": [0, 1]}, "c": {"choice": [1]}}},
        overrides=["space.a.b={int: [1, 4]}", "points=[{a.b: 2}]"],
    )
    assert config.space["a.b"] == Range(int=(1, 4))
    assert config.space["c"].edges == (1,)
    assert config.points == ({"a.b": 2},)


def test_choices_come_back_as_they_were_written():
    space = {"x": Range(choice=(True, 1, [1, 2], None, "1")), "y": Range(int=(0, 3))}
    for value in space["x"].edges:
        back = decode_params(space, {"x": encode_choice(value), "y": 2})
        assert back["y"] == 2
        assert back["x"] == value
        assert type(back["x"]) is type(value)
    assert len(grid_of(space["x"])) * len(grid_of(space["y"])) == 20
