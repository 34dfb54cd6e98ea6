"""Configurations as YAML."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq

from road_ray.config.base import Config, to_dict

_WIDTH = 100


def to_yaml(config: Config) -> str:
    """Return the whole configuration as YAML that ``load`` reads back to an equal one."""
    return plain_yaml(to_dict(config))


def plain_yaml(values: Mapping[str, object], *, allow_unicode: bool = False) -> str:
    """Return plain values as YAML, lists of plain items on one line each."""
    writer = YAML()
    writer.allow_unicode = allow_unicode  # else escapes, which survive every terminal and editor
    writer.width = 4096
    stream = io.StringIO()
    writer.dump(_laid_out(dict(values)), stream)
    return stream.getvalue()


def comment(text: str, indent: str = "") -> list[str]:
    """Return the text as lines of a YAML comment."""
    start = f"{indent}# "
    return textwrap.wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=start, break_on_hyphens=False
    )


def _laid_out(value: object) -> Any:
    """Return the value with its lists of plain items on one line each."""
    if isinstance(value, dict):
        return {name: _laid_out(item) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    items = CommentedSeq(_laid_out(item) for item in value)
    if not any(isinstance(item, dict | list) for item in value):
        items.fa.set_flow_style()
    return items
