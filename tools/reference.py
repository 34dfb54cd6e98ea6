"""Print the configuration reference; ``make reference`` writes it to ``docs/reference/``."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from road_ray.cli.configuration import values_with_names
from road_ray.config import flatten
from road_ray.config.schema import (
    Key,
    Node,
    allowed,
    at,
    default_of,
    format_key,
    format_value,
    is_section,
    members,
    properties,
    schema_of,
)
from road_ray.recipes.config import RunConfig
from road_ray.verbs import CONFIGURABLE, VERBS, configuration_class

_INTRODUCTION = """\
# Configuration reference

Every key of every verb, made by `make reference` from the docstrings of the configuration classes.
A configuration is a preset (`--preset NAME`, or `preset: NAME` at the top of the file), overridden
by a YAML file, overridden by `section.key=value` on the command line. An empty key is `null`.

| to see | type |
|---|---|
| a key: allowed values, default, meaning, presets | `road explain optimizer.peak_lr` |
| a section | `road explain optimizer finetune` |
| a preset: its file, with its sources | `road presets electra_small` |
| the schema of a verb, for editors | `road schema finetune` |

**Completion in editors.** `road presets electra_small --output my.yaml` writes `my.yaml` and,
beside it, the schema `pretrain.schema.json` that the first line of `my.yaml` names. Editors with
yaml-language-server (VS Code with the YAML extension, Neovim, Emacs) then complete keys and values,
show meanings, and mark mistakes; no network is needed. For another file, write the schema with
`road schema finetune --output finetune.schema.json` and begin the file with
`# yaml-language-server: $schema=finetune.schema.json`; the path is relative to the file. `sweep` is
the schema of search spaces, `submit` that of cluster profiles (`*.profile.yaml`).
"""
_NAME = "NAME"  # stands for any name of a mapping
_FILES = {
    "sweep": "a search space: which verb, which keys are drawn, how trials are judged",
    "submit": "a cluster profile: how jobs are sent to a cluster, and the environment of a job",
}


@dataclass
class _Section:
    """Section at one key, and the verbs that have it."""

    key: Key
    about: str
    names: tuple[str, ...]
    verbs: list[str] = field(default_factory=list)
    shares_key: bool = False
    """True if other verbs have another section at the same key."""

    @property
    def heading(self) -> str:
        """The key, followed by the verbs if it is another section in other verbs."""
        verbs = f" of {', '.join(self.verbs)}" if self.shares_key else ""
        return f"`{format_key(self.key)}`{verbs}"


def reference() -> str:
    """Return the page: the verbs with their own keys, then the sections that they share."""
    sections = _sections()
    parts = [_INTRODUCTION, _every_run()]
    parts += [_verb(name, sections) for name in CONFIGURABLE]
    parts += ["## Sections\n", *map(_section, sections)]
    return "\n".join(parts)


def _sections() -> list[_Section]:
    """Return the sections of all verbs; verbs with the same section at one key share an entry."""
    sections: dict[tuple[object, ...], _Section] = {}
    for verb in CONFIGURABLE:
        for key, member in _sections_below(schema_of(configuration_class(verb)), ()):
            about, names = member.get("x-about", ""), tuple(member["properties"])
            section = _Section(key, about, names)
            sections.setdefault((key, about, names), section).verbs.append(verb)
    for section in sections.values():
        section.shares_key = [key for key, *_ in sections].count(section.key) > 1
    return list(sections.values())


def _sections_below(node: Node, above: Key) -> Iterator[tuple[Key, Node]]:
    for name, below in properties(node).items():
        for key, inner in (
            ()
            if name in _OF_GUIDES
            else (
                ((*above, name), below),
                *(((*above, name, _NAME), m.get("additionalProperties")) for m in members(below)),
            )
        ):
            for member in members(inner) if isinstance(inner, dict) else ():
                if "properties" in member and not _is_run(member):
                    yield key, member
                    yield from _sections_below(member, key)


# Sections whose keys a guide explains with examples, and which are one row here.
_OF_GUIDES = {"experiment"}


def _is_run(node: Node) -> bool:
    """Return True for a section that is the configuration of another verb."""
    return {"run_dir", "console"} <= properties(node).keys()


def _every_run() -> str:
    verbs = [name for name in CONFIGURABLE if issubclass(configuration_class(name), RunConfig)]
    rows = [
        _row((name,), verbs)
        for name, node in properties(schema_of(RunConfig)).items()
        if not properties(node)
    ]
    return "\n".join(
        ["## Every run\n", "Keys of every verb except `sweep` and `submit`.\n", *rows, ""]
    )


def _verb(name: str, sections: list[_Section]) -> str:
    kind = configuration_class(name)
    about = VERBS[name].about if name in VERBS else _FILES[name]
    shared = properties(schema_of(RunConfig)) if issubclass(kind, RunConfig) else {}
    nodes = properties(schema_of(kind))
    rows = [
        _row((key,), [name])
        for key, node in nodes.items()
        if not is_section(node)
        and shared.get(key, {}).get("description") != node.get("description", "")
    ]
    lines = [f"## road {name}\n", f"{about[0].upper()}{about[1:]}.\n", *rows]
    lines += [_run_within(key, node) for key, node in nodes.items() if _is_run(node)]
    lines += [
        f"- **`{key}`**: section. {node['description']}"
        for key, node in nodes.items()
        if key in _OF_GUIDES
    ]
    links = [
        f"[`{format_key(info.key)}`](#{_anchor(info.heading)})"
        for info in sections
        if name in info.verbs and len(info.key) == 1
    ]
    return "\n".join([*lines, "", *([f"Sections: {', '.join(links)}.\n"] if links else [])])


def _run_within(key: str, node: Node) -> str:
    """Return the changed defaults of a section that is the configuration of another verb."""
    names = properties(node).keys()
    other = next(n for n in VERBS if properties(schema_of(configuration_class(n))).keys() >= names)
    usual = flatten(default_of(schema_of(configuration_class(other))))
    differing = "; ".join(
        f"`{name}` {format_value(value)}"
        for name, value in flatten(default_of(node)).items()
        if value != usual.get(name)
    )
    link = f"[`road {other}`](#road-{other})"
    start = f"- **`{key}`**: section. {node.get('description', '')}".rstrip()
    return f"{start} It has the keys of {link}, with these defaults: {differing}."


def _section(section: _Section) -> str:
    keys = properties(at(configuration_class(section.verbs[0]), section.key) or {})
    rows = [
        _row((*section.key, name), section.verbs)
        for name, node in keys.items()
        if not is_section(node)
    ]
    verbs = f"Verbs: {', '.join(section.verbs)}."
    return "\n".join([f"### {section.heading}\n", f"{section.about} {verbs}\n", *rows, ""])


def _row(key: Key, verbs: list[str]) -> str:
    nodes = {verb: at(configuration_class(verb), key) for verb in verbs}
    known = {verb: node for verb, node in nodes.items() if node is not None}
    default = values_with_names({v: default_of(node) for v, node in known.items()}, shared=True)
    node = next(iter(known.values()))
    start = f"- **`{format_key(key)}`**: {allowed(node)}; default: {default}."
    return f"{start} {node.get('description', '')}".rstrip()


def _anchor(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-")


if __name__ == "__main__":
    sys.stdout.write(reference())
