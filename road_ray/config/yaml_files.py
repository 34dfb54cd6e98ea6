"""YAML files: plain values with the line of every key, and configurations as YAML.

YAML 1.2 through ruamel: ``5e-5`` is a number, ``no`` is text, ``0123`` is 123. Tags that build
objects, duplicate keys, and aliases that expand without bound are reported with their line.
"""

import io
import textwrap
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from road_ray.config.base import Config, to_dict
from road_ray.config.messages import InvalidConfig
from road_ray.config.schema import Key
from road_ray.errors import Problem, shorten

_MOST_BYTES = 1 << 20  # a configuration of this project has about 5 kB
_MOST_VALUES = 20_000  # after aliases are expanded
_DEEPEST = 40
DATA_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".txt", ".parquet", ".arrow", ".gz")
_TAG = "tag:yaml.org,2002:"
_WIDTH = 100


@dataclass
class YamlDocument:
    """The values of one YAML text, and the line of every key."""

    values: dict[str, Any]
    lines: dict[Key, int]


def read_yaml(path: Path) -> YamlDocument:
    """Return the content of a YAML file; an empty file is an empty mapping.

    Raises ``InvalidConfig`` with the line of what cannot be used.
    """
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
        remedy = _data_remedy(path) or "is this a data file?"
        raise InvalidConfig([Problem(str(path), message, remedy)])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        message = f"is not UTF-8 (byte 0x{content[error.start]:02x})"
        remedy = _data_remedy(path) or "save it as UTF-8 text"
        raise InvalidConfig([Problem(f"{path}:{line}", message, remedy)]) from None
    values, lines = parse_yaml(text, str(path))
    values = {} if values is None else values
    if not isinstance(values, dict):
        message = "holds a list" if isinstance(values, list) else f"holds {shorten(repr(values))}"
        allowed = "\n    allowed: a mapping of keys to values"
        remedy = _data_remedy(path) or "write lines like 'key: value'"
        raise InvalidConfig([Problem(str(path), message + allowed, remedy)])
    return YamlDocument(values, lines)


def _data_remedy(path: Path) -> str:
    """Return what to do with a data file in the place of a configuration; empty for others."""
    if path.suffix.lower() not in DATA_SUFFIXES:
        return ""
    return (
        f"this is data, not a configuration: run `road init {path}`, "
        f"or add data.corpus={path} to `road pretrain`"
    )


class _Constructor(SafeConstructor):
    """Constructor of plain values; dates stay text."""


_Constructor.add_constructor(f"{_TAG}timestamp", SafeConstructor.construct_yaml_str)


class _Parser(YAML):
    """Parser without plug-ins, whose search in the file system takes as long as a small file."""

    def official_plug_ins(self) -> list[str]:
        return []


def parse_yaml(text: str, name: str) -> tuple[Any, dict[Key, int]]:
    """Return the values of a YAML text, such as ``1e-4`` or ``[1, 2]``, and the line of every key
    and item; errors start with ``name``.
    """
    try:
        return deepcopy(_read(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark and "\n" in text else name
        message = ", ".join(str(part) for part in (error.context, error.problem) if part)
        remedy = "check quotes, colons and indentation; tabs and tags (!) are not accepted"
        if not name.endswith((".json", ".txt")):  # these may well be a configuration
            remedy = _data_remedy(Path(name)) or remedy
        raise InvalidConfig([Problem(where, f"is not valid YAML: {message}", remedy)]) from None
    except (YAMLError, ValueError, LookupError, RecursionError) as error:
        deep = f"it is nested deeper than {_DEEPEST} levels"
        reason = deep if isinstance(error, RecursionError) else " ".join(str(error).split())
        message = f"is not valid YAML: {reason}"
        remedy = "write plain values, without nested aliases"
        raise InvalidConfig([Problem(name, message, remedy)]) from None


@lru_cache(maxsize=64)
def _read(text: str) -> tuple[Any, dict[Key, int]]:
    """Return values and lines of a YAML text; a run reads its own record often, as do presets."""
    parser = _Parser(typ="safe", pure=True)
    parser.Constructor = _Constructor
    parser.composer.warn_double_anchors = False  # YAML allows an anchor to be redefined
    node = parser.compose(text)
    if node is None:
        return None, {}
    lines: dict[Key, int] = {}
    remaining = [_MOST_VALUES]
    _note_lines(node, (), lines, remaining)
    return _with_text_keys(parser.constructor.construct_document(node)), lines


def _note_lines(node: Node, key: Key, lines: dict[Key, int], remaining: list[int]) -> None:
    """Note the line of every key and item. Raises ``ValueError`` for a text that is too deep, or
    too large once its aliases are expanded.
    """
    remaining[0] -= 1
    if remaining[0] < 0:
        raise ValueError(f"it holds more than {_MOST_VALUES} values once its aliases are expanded")
    if len(key) > _DEEPEST:
        raise ValueError(f"it is nested deeper than {_DEEPEST} levels")
    inner = list(enumerate(node.value)) if isinstance(node, SequenceNode) else []
    for number, child in inner:
        lines[(*key, number)] = child.start_mark.line + 1
        _note_lines(child, (*key, number), lines, remaining)
    for name, child in node.value if isinstance(node, MappingNode) else ():
        if name.tag == f"{_TAG}merge":  # `<<: *anchor` or `<<: [*a, *b]`
            for source in child.value if isinstance(child, SequenceNode) else [child]:
                _note_lines(source, key, lines, remaining)
            continue
        if not isinstance(name, ScalarNode):
            raise ValueError(f"line {name.start_mark.line + 1}: a key is a list or a mapping")
        below = (*key, str(name.value))
        lines[below] = name.start_mark.line + 1
        _note_lines(child, below, lines, remaining)


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _with_text_keys(below) for name, below in value.items()}
    return [_with_text_keys(item) for item in value] if isinstance(value, list) else value


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
