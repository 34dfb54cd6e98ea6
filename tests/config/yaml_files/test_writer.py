"""A configuration as YAML with the meaning of what it changes."""

from __future__ import annotations

import pytest

from road_ray.config import Config, load
from road_ray.config.yaml_files.writer import annotated_yaml
from road_ray.presets import PRESETS


class Inner(Config):
    first: int = 1
    """The first number."""
    second: int = 2
    """The second number."""


class Outer(Config):
    inner: Inner = Inner()
    name: str = ""
    """What it is called."""
    rest: tuple[int, ...] = (1, 2)


def test_changed_keys_come_first_with_their_meaning() -> None:
    assert annotated_yaml(Outer(inner=Inner(second=3), name="x")) == (
        "# What it is called.\n"
        "name: x\n"
        "\n"
        "inner:\n"
        "  # The second number.\n"
        "  second: 3\n"
        "  # Defaults:\n"
        "  first: 1\n"
        "\n"
        "# Everything below has its default.\n"
        "rest: [1, 2]\n"
    )


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_a_preset_is_read_back_as_it_was(preset, tmp_path) -> None:
    config = preset.make()
    (tmp_path / "a.yaml").write_text(annotated_yaml(config))
    assert load(type(config), path=tmp_path / "a.yaml") == config
