"""Configurations as YAML: plain, or commented for people: changed keys with their meaning first."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq

from road_ray.config.base_config import Config, to_dict
from road_ray.config.dotted_keys import Key
from road_ray.config.key_explanation import defaults, key_info

_WIDTH = 100
_INDENT = "  "


def to_yaml(config: Config) -> str:
    """Return the whole configuration as YAML that ``load`` reads back to an equal one."""
    return plain_yaml(to_dict(config))


def plain_yaml(values: Mapping[str, object]) -> str:
    """Return plain values as YAML, lists of plain items on one line each."""
    writer = YAML()
    writer.allow_unicode = False  # escapes survive every terminal and editor
    writer.width = 4096
    stream = io.StringIO()
    writer.dump(_laid_out(dict(values)), stream)
    return stream.getvalue()


def annotated_yaml(config: Config) -> str:
    """Return YAML that ``load`` reads back to an equal configuration.

    Keys that differ from the defaults of its class come first, below a comment with their meaning.
    Keys with default values follow at the end of each section and of the file.
    """
    lines = _section(type(config), (), to_dict(config), defaults(type(config)))
    return "\n".join(lines).strip("\n") + "\n"


def comment(text: str, indent: str = "") -> list[str]:
    """Return the text as lines of a YAML comment."""
    start = f"{indent}# "
    return textwrap.wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=start, break_on_hyphens=False
    )


def _section(
    kind: type[Config], above: Key, values: Mapping[str, Any], usual: Mapping[str, Any]
) -> Iterator[str]:
    indent = _INDENT * len(above)
    changed = [name for name in values if values[name] != usual.get(name)]
    for name in sorted(changed, key=lambda name: _is_section(kind, (*above, name))):
        key = (*above, name)
        if not above:
            yield ""
        if _is_section(kind, key):
            yield f"{indent}{name}:"
            yield from _section(kind, key, values[name], usual.get(name) or {})
            continue
        info = key_info(kind, key)
        yield from comment(info.meaning if info else "", indent)
        yield from _written({name: values[name]}, indent)
    rest = {name: value for name, value in values.items() if name not in changed}
    if rest:
        yield from (
            [f"{indent}# Defaults:"] if above else ["", "# Everything below has its default."]
        )
        yield from _written(rest, indent)


def _is_section(kind: type[Config], key: Key) -> bool:
    info = key_info(kind, key)
    return info is not None and info.field.only_sections


def _written(values: Mapping[str, object], indent: str) -> list[str]:
    return textwrap.indent(plain_yaml(values), indent).rstrip("\n").split("\n")


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
