"""Every key of every configuration explains itself: its docstring is its description."""

import re
from collections.abc import Iterator

import pytest

from road_ray.config.schema import Node, at, members, schema_of
from road_ray.distributed.job_client import Profile
from road_ray.experiment.config import ExperimentConfig
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.verbs import VERBS

LEAST_CHARACTERS = 15
# A description opens with what the value is, not with a fragment or with what None does.
BAD_OPENERS = ("Of ", "What ", "Who ", "Whose ", "Those ", "Whether ", "None", "As ")
ROOTS = (*(verb.config for verb in VERBS.values()), SweepConfig, ExperimentConfig, Profile)


def keys_below(node: Node, above: str = "") -> Iterator[tuple[str, Node]]:
    """Yield every key with its node, also in the entries of mappings and lists of sections."""
    for member in members(node):
        for name, below in member.get("properties", {}).items():
            yield f"{above}{name}", below
            yield from keys_below(below, f"{above}{name}.")
        for entry in (member.get("additionalProperties"), member.get("items")):
            if isinstance(entry, dict):
                yield from keys_below(entry, f"{above}NAME.")


SECTIONS = {
    name
    for root in ROOTS
    for name, node in schema_of(root)["properties"].items()
    if any(keys_below(node))
}


@pytest.mark.parametrize("root", ROOTS)
def test_every_key_has_a_description_of_keys_that_exist_and_every_section_a_docstring(root):
    assert schema_of(root)["description"]
    for key, node in keys_below(schema_of(root)):
        text = node.get("description", "")
        assert len(text) >= LEAST_CHARACTERS, key
        assert text.endswith("."), key
        assert not text.startswith(BAD_OPENERS), key
        assert all(m["x-about"] for m in members(node) if "properties" in m), key
        for named in re.findall(r"`([a-z_]+(?:\.[a-z_0-9]+)+)`", node["description"]):
            is_key = named.partition(".")[0] in SECTIONS
            assert not is_key or any(at(r, tuple(named.split("."))) for r in ROOTS), (key, named)
