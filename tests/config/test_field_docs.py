"""Every field of every configuration explains itself: its docstring is its description."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from road_ray.config import Config, json_schema
from road_ray.config.schema import at
from road_ray.distributed.job_client import Profile
from road_ray.experiment.config import ExperimentConfig
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.verbs import VERBS

LEAST_CHARACTERS = 15
# A description opens with what the value is, not with a fragment or with what None does.
BAD_OPENERS = ("Of ", "What ", "Who ", "Whose ", "Those ", "Whether ", "None", "As ")
ROOTS: tuple[type[Config], ...] = (
    *(verb.config for verb in VERBS.values()),
    SweepConfig,
    ExperimentConfig,
    Profile,
)


def configs_in(annotation: Any) -> Iterator[type[Config]]:
    """Yield the configuration classes inside a type: of sections, unions, tuples, dict values."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        yield annotation
    for part in get_args(annotation):
        yield from configs_in(part)


def sections(*roots: type[Config]) -> list[type[Config]]:
    """Return ``roots`` and every configuration class below them, each once."""
    classes = dict.fromkeys(roots)
    waiting = list(roots)
    while waiting:
        for field in waiting.pop().model_fields.values():
            below = [kind for kind in configs_in(field.annotation) if kind not in classes]
            classes.update(dict.fromkeys(below))
            waiting += below
    return list(classes)


def poorly_described(*roots: type[Config]) -> list[str]:
    """Return ``Class.field: description`` of each field without a good sentence about it."""
    return [
        f"{kind.__name__}.{name}: {field.description!r}"
        for kind in sections(*roots)
        for name, field in kind.model_fields.items()
        if len(text := (field.description or "").strip()) < LEAST_CHARACTERS
        or not text.endswith(".")
        or text.startswith(BAD_OPENERS)
    ]


def test_every_field_of_every_configuration_has_a_description():
    poor = poorly_described(*ROOTS)
    assert not poor, "\n".join([f"{len(poor)} fields:", *poor])


def test_every_configuration_class_has_a_docstring_of_its_own():
    assert [kind.__name__ for kind in sections(*ROOTS) if "__doc__" not in vars(kind)] == []


@pytest.mark.parametrize("root", ROOTS)
def test_every_property_of_the_json_schema_has_a_description(root):
    """Pydantic drops a description that repeats the docstring of the section's class."""
    schema = json_schema(root)
    parts = {"": schema, **schema.get("$defs", {})}
    assert [
        f"{part}.{name}"
        for part, content in parts.items()
        for name, value in content.get("properties", {}).items()
        if not value.get("description")
    ] == []


def test_keys_that_descriptions_name_exist():
    heads = {
        name
        for root in ROOTS
        for name, field in root.model_fields.items()
        if any(configs_in(field.annotation))
    }
    unknown = [
        f"{kind.__name__}.{name}: {key}"
        for kind in sections(*ROOTS)
        for name, field in kind.model_fields.items()
        for key in re.findall(r"``([a-z_]+(?:\.[a-z_0-9]+)+)``", field.description or "")
        if key.partition(".")[0] in heads
        and not any(at(root, tuple(key.split("."))) for root in ROOTS)
    ]
    assert unknown == []
