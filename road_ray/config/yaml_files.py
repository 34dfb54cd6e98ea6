"""YAML files: plain values with the line of every key, and configurations as YAML.

YAML 1.2 through ruamel: ``5e-5`` is a number, ``no`` is text, ``0123`` is 123. Tags that build
objects, duplicate keys, and aliases that expand without bound are reported with their line.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from road_ray.config.base import Config, to_dict
from road_ray.config.messages import InvalidConfig
from road_ray.config.schema import Key, format_key
from road_ray.errors import Problem, shorten

_MOST_BYTES = 1 << 20  # a configuration of this project has about 5 kB
_MOST_VALUES = 20_000  # after aliases are expanded
_DEEPEST = 40
_DATA_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".txt", ".parquet")
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = ("null", "bool", "int", "float", "str", "timestamp", "map", "seq")


@dataclass
class YamlDocument:
    """The values of one YAML text, and the line of every key."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[Key, int] = field(default_factory=dict)


def read_yaml(path: Path) -> YamlDocument:
    """Return the content of a YAML file; an empty file is an empty mapping.

    Raises ``InvalidConfig`` with the line of what cannot be used.
    """
    text = _text(path)
    node = _compose(text, str(path))
    if node is None or (isinstance(node, ScalarNode) and node.tag == f"{_TAG}null"):
        return YamlDocument()
    if not isinstance(node, MappingNode):
        is_list = isinstance(node, SequenceNode)
        message = "holds a list" if is_list else f"holds the text {shorten(node.value)!r}"
        where = f"{path}:{node.start_mark.line + 1}"
        allowed = "\n    allowed: a mapping of keys to values"
        remedy = _data_remedy(path) or "write lines like 'key: value'"
        raise InvalidConfig([Problem(where, message + allowed, remedy)])
    builder = _Builder(str(path))
    return YamlDocument(builder.build(node, ()), builder.lines)


def parse_value(text: str, name: str) -> Any:
    """Return the value of YAML such as ``1e-4`` or ``[1, 2]``; errors start with ``name``."""
    node = _compose(text, name)
    return None if node is None else _Builder(name, with_lines=False).build(node, ())


def _data_remedy(path: Path) -> str:
    """Return what to do with a data file in the place of a configuration; empty for others."""
    if path.suffix.lower() not in _DATA_SUFFIXES:
        return ""
    return (
        f"this is data, not a configuration: run `road init {path}`, "
        f"or add data.corpus={path} to `road pretrain`"
    )


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        nearby = sorted(p.name for s in ("*.yaml", "*.yml") for p in path.parent.glob(s))[:5]
        remedy = "check the path" + (f"; YAML files here: {', '.join(nearby)}" if nearby else "")
        where = f"no such file (working directory: {Path.cwd()})"
        raise InvalidConfig([Problem(str(path), where, remedy)]) from None
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise InvalidConfig([Problem(str(path), message, "name a readable YAML file")]) from None
    if len(content) > _MOST_BYTES:
        message = f"is larger than {_MOST_BYTES} bytes, too large for a configuration"
        raise InvalidConfig(
            [Problem(str(path), message, _data_remedy(path) or "is this a data file?")]
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        message = f"is not UTF-8 (byte 0x{content[error.start]:02x})"
        remedy = _data_remedy(path) or "save it as UTF-8 text"
        raise InvalidConfig([Problem(f"{path}:{line}", message, remedy)]) from None


class _Parser(YAML):
    """Parser without plug-ins, whose search in the file system takes as long as a small file."""

    def official_plug_ins(self) -> list[str]:
        return []


def _compose(text: str, name: str) -> Node | None:
    try:
        return _nodes(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark and "\n" in text else name
        message = ", ".join(str(part) for part in (error.context, error.problem) if part)
        tab = "'\\t'" in message
        remedy = "indent with spaces, not tabs" if tab else "check quotes, colons and indentation"
        if not name.endswith((".json", ".txt")):  # these may well be a configuration
            remedy = _data_remedy(Path(name)) or remedy
        raise InvalidConfig([Problem(where, f"is not valid YAML: {message}", remedy)]) from None
    except RecursionError:
        raise _too_much(name, f"is nested deeper than {_DEEPEST} levels") from None
    except (YAMLError, ValueError) as error:
        message = f"is not valid YAML: {' '.join(str(error).split())}"
        raise InvalidConfig([Problem(name, message, "remove special characters")]) from None


@lru_cache(maxsize=4)
def _nodes(text: str) -> Node | None:
    """Return the nodes of a YAML text, which nothing changes; a run reads its own record often."""
    parser = _Parser(typ="safe", pure=True)
    parser.composer.warn_double_anchors = False  # YAML allows an anchor to be redefined
    node: Node | None = parser.compose(text)
    return node


def _too_much(name: str, message: str) -> InvalidConfig:
    return InvalidConfig([Problem(name, message, "write the values out, without nested aliases")])


class _Builder:
    """Converts nodes into plain values, and records lines."""

    def __init__(self, name: str, *, with_lines: bool = True) -> None:
        self.name = name
        self.with_lines = with_lines
        self.lines: dict[Key, int] = {}
        self.remaining = _MOST_VALUES
        self.constructor = _Parser(typ="safe", pure=True).constructor

    def build(self, node: Node, key: Key) -> Any:
        self.remaining -= 1
        if self.remaining < 0:
            message = f"holds more than {_MOST_VALUES} values once its aliases are expanded"
            raise _too_much(self.name, message)
        if len(key) > _DEEPEST:
            raise _too_much(self.name, f"is nested deeper than {_DEEPEST} levels")
        tag = str(node.tag).removeprefix(_TAG)
        if tag not in _PLAIN_TAGS:
            message = f"{format_key(key)} has the tag {str(node.tag).replace(_TAG, '!!')!r}"
            raise self.refusal(node, f"{message}\n    allowed: plain values", "remove the tag")
        if isinstance(node, MappingNode):
            return self.mapping(node, key)
        if isinstance(node, SequenceNode):
            items = list(enumerate(node.value))
            self.lines |= {(*key, n): child.start_mark.line + 1 for n, child in items}
            return [self.build(child, (*key, n)) for n, child in items]
        return self.scalar(node, key, tag)

    def refusal(self, node: Node, message: str, remedy: str) -> InvalidConfig:
        line = f":{node.start_mark.line + 1}" if self.with_lines else ""
        return InvalidConfig([Problem(f"{self.name}{line}", message, remedy)])

    def scalar(self, node: Node, key: Key, tag: str) -> Any:
        if tag in ("str", "timestamp"):
            return node.value
        try:
            if tag == "bool" and node.value.lower() not in ("true", "false"):
                raise ValueError("the yes and no of YAML 1.1")
            return self.constructor.construct_object(node)
        except (ValueError, LookupError, YAMLError):
            message = f"{format_key(key)} = {str(node.value)[:80]!r} cannot be read as {tag}"
            raise self.refusal(node, message, "write it as a plain value") from None

    def mapping(self, node: MappingNode, key: Key) -> Any:
        values: dict[str, Any] = {}
        inherited: dict[str, Any] = {}
        for name_node, child in node.value:
            if name_node.tag == f"{_TAG}merge":  # `<<: *anchor` or `<<: [*a, *b]`; earlier ones win
                sources = child.value if isinstance(child, SequenceNode) else [child]
                if not all(isinstance(source, MappingNode) for source in sources):
                    raise self.refusal(child, "'<<' takes mappings only", "write '<<: *name'")
                for source in sources:
                    inherited = self.build(source, key) | inherited
                continue
            if not isinstance(name_node, ScalarNode):
                raise self.refusal(name_node, "a key must be plain text", "write 'key: value'")
            below = (*key, str(name_node.value))
            if below[-1] in values:
                first = self.lines[below]
                message = f"{format_key(below)} is written twice (first on line {first})"
                raise self.refusal(name_node, message, "remove one of the two")
            self.lines[below] = name_node.start_mark.line + 1
            values[str(name_node.value)] = self.build(child, below)
        return inherited | values


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
