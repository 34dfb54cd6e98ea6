"""Print the typed stub of the package; ``make reference`` writes it to ``road_ray/__init__.pyi``.

Verbs have their keys by name: sections are dictionaries whose keys have types and descriptions, so
that an editor completes and explains them, and a type checker finds an unknown key.
"""

import sys
import textwrap

import road_ray
from road_ray import verbs
from road_ray.config.schema import Key, Node, at, meaning_of, properties, schema_of

_TYPES = {"integer": "int", "number": "float", "boolean": "bool", "string": "str | Path"}
_START = '''\
"""ROaD-ELECTRA on Ray. Every verb is a function: configuration in, ``Run`` out.

Made by ``make reference`` from the configuration classes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from road_ray.config import Config
'''
_VERB = '''\
def {name}(
    config: Config | Path | str | None = None,
    *,
    preset: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    context: RunContext | None = None,
    {keys}
) -> Run:
    """{about}

    Args:
{meanings}
    """
'''


def stub() -> str:
    """Return the stub: the public objects, the sections of the verbs, the verbs."""
    classes: dict[str, str] = {}  # names by their bodies
    functions = [_function(name, classes) for name in verbs.VERBS]
    public = [f"from {m} import {n} as {n}" for n, m in road_ray.OBJECTS.items()]
    public.sort(key=str.split)
    sections = [f"class {name}(TypedDict, total=False):\n{b}" for b, name in classes.items()]
    names = f"__all__ = {road_ray.__all__!r}\n"
    return "\n".join([_START + "\n".join(public), names, *sections, *functions])


def _function(verb: str, classes: dict[str, str]) -> str:
    kind = verbs.VERBS[verb].config
    keys = dict(properties(schema_of(kind)))
    if verb == "distill":
        keys |= {name: at(kind, tuple(k.split("."))) or {} for name, k in verbs.FLAT_NAMES.items()}
    types = {name: _type(node, (verb, name), classes) for name, node in keys.items()}
    if verb == "distill":
        types["teachers"] += " | Ensemble | str | Path"
    return _VERB.format(
        name=verb,
        keys="\n    ".join(f"{name}: {kind} = ...," for name, kind in types.items()),
        about=textwrap.indent(getattr(road_ray, verb).__doc__, "    ").strip(),
        meanings="\n".join(_wrapped(f"{n}: {meaning_of(node)}", 8) for n, node in keys.items()),
    )


def _type(node: Node, key: Key, classes: dict[str, str]) -> str:
    """Return the Python type of a key's values; a section adds its class to ``classes``."""
    inner = node.get("anyOf") or node.get("oneOf") or [node]
    if inner != [node]:
        return " | ".join(dict.fromkeys(_type(part, key, classes) for part in inner))
    if "enum" in node or "const" in node:
        return f"Literal[{', '.join(map(repr, node.get('enum', [node.get('const')])))}]"
    if "properties" in node:
        return _section(node, key, classes)
    if node.get("type") == "array":
        items = node["items"] if isinstance(node["items"], list) else [node["items"]]
        return f"Sequence[{' | '.join(dict.fromkeys(_type(i, key, classes) for i in items))}]"
    if node.get("type") == "object":
        below = node.get("additionalProperties")
        return f"Mapping[str, {_type(below, key, classes) if isinstance(below, dict) else 'Any'}]"
    return "None" if node.get("type") == "null" else _TYPES.get(str(node.get("type")), "Any")


def _section(node: Node, key: Key, classes: dict[str, str]) -> str:
    body = ""
    for name, below in properties(node).items():
        body += f"    {name}: {_type(below, (*key, name), classes)}\n"
        body += f'    """{_wrapped(meaning_of(below), 4).strip()}"""\n'
    words = "_".join(map(str, key)).title().split("_")
    names = ("_" + "".join(words[start:]) for start in reversed(range(len(words))))
    return classes.setdefault(body, next(n for n in names if n not in classes.values()))


def _wrapped(text: str, indent: int) -> str:
    return textwrap.fill(text, 94, initial_indent=" " * indent, subsequent_indent=" " * indent)


if __name__ == "__main__":
    sys.stdout.write(stub())
