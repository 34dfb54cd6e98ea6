"""The configuration reference, ``docs/reference/configuration.md``, generated from the classes.

``python -m road_ray.cli.configuration.reference`` prints the page; ``make reference`` writes it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import BaseModel

from road_ray.cli.configuration.explain import default_text
from road_ray.config import flatten
from road_ray.config.allowed_values import format_value
from road_ray.config.dotted_keys import Field, Key, field_at, format_key, one_line
from road_ray.config.key_explanation import KeyInfo, defaults, key_info, section_infos
from road_ray.recipes.config import RunConfig
from road_ray.verbs import CONFIGURABLE, VERBS, configuration_class

_INTRODUCTION = """\
# Configuration reference

Every key of every verb, made by `make reference` from the docstrings of the configuration classes.
A configuration is a preset (`--preset NAME`, or `preset: NAME` at the top of the file), overridden
by a YAML file, overridden by `section.key=value` on the command line. An empty key is `null`.

| to see | type |
|---|---|
| a key: type, default, allowed values, meaning, presets | `road explain optimizer.peak_lr` |
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
    """Section of one class at one key, and the verbs that have it."""

    key: Key
    kind: type[BaseModel]
    verbs: list[str] = field(default_factory=list)
    shares_key: bool = False
    """True if other verbs have another class at the same key."""

    @property
    def heading(self) -> str:
        """The key, followed by the verbs if it has another class in other verbs."""
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
    """Return the sections of all verbs; verbs that share a class at one key share an entry."""
    sections: dict[tuple[Key, type[BaseModel]], _Section] = {}
    for verb in CONFIGURABLE:
        for key, kind in _sections_below(configuration_class(verb), ()):
            sections.setdefault((key, kind), _Section(key, kind)).verbs.append(verb)
    for section in sections.values():
        section.shares_key = [key for key, _ in sections].count(section.key) > 1
    return list(sections.values())


def _sections_below(kind: type[BaseModel], above: Key) -> Iterator[tuple[Key, type[BaseModel]]]:
    for name in (field_at(kind, above) or Field(kind)).keys:
        for key in ((*above, name), (*above, name, _NAME)):  # the key, or an entry of a mapping
            declared = field_at(kind, key)
            for section in declared.sections if declared else ():
                if not issubclass(section, RunConfig):
                    yield key, section
                    yield from _sections_below(kind, key)


def _every_run() -> str:
    verbs = [name for name in CONFIGURABLE if issubclass(configuration_class(name), RunConfig)]
    infos = [info for info in section_infos(RunConfig) if not info.keys_below]
    rows = [_row(info.key, verbs) for info in infos]
    return "\n".join(
        ["## Every run\n", "Keys of every verb except `sweep` and `submit`.\n", *rows, ""]
    )


def _verb(name: str, sections: list[_Section]) -> str:
    kind = configuration_class(name)
    about = VERBS[name].about if name in VERBS else _FILES[name]
    shared = {}
    if issubclass(kind, RunConfig):
        shared = {info.key: info.field.meaning for info in section_infos(RunConfig)}
    infos = [
        info
        for info in section_infos(kind)
        if info.field.only_sections or shared.get(info.key) != info.field.meaning
    ]
    rows = [_row(info.key, [name]) for info in infos if not info.field.only_sections]
    lines = [f"## road {name}\n", f"{about[0].upper()}{about[1:]}.\n", *rows]
    lines += [_run_within(info) for info in infos if _runs(info)]
    links = [
        f"[`{format_key(info.key)}`](#{_anchor(info.heading)})"
        for info in sections
        if name in info.verbs and len(info.key) == 1
    ]
    return "\n".join([*lines, "", *([f"Sections: {', '.join(links)}.\n"] if links else [])])


def _runs(info: KeyInfo) -> list[type[RunConfig]]:
    return [section for section in info.field.sections if issubclass(section, RunConfig)]


def _run_within(info: KeyInfo) -> str:
    """Return the changed defaults of a section that is the configuration of another verb."""
    section = _runs(info)[0]
    other = next(name for name, of in VERBS.items() if issubclass(of.config, section))
    usual, changed = flatten(defaults(section)), flatten(info.default)
    differing = "; ".join(
        f"`{key}` {format_value(value)}"
        for key, value in changed.items()
        if value != usual.get(key)
    )
    link = f"[`road {other}`](#road-{other})"
    start = f"- **`{format_key(info.key)}`**: section. {info.field.meaning}".rstrip()
    return f"{start} It has the keys of {link}, with these defaults: {differing}."


def _section(section: _Section) -> str:
    about = one_line(section.kind.__doc__ or "")
    infos = section_infos(configuration_class(section.verbs[0]), section.key)
    rows = [_row(info.key, section.verbs) for info in infos if not info.field.only_sections]
    verbs = f"Verbs: {', '.join(section.verbs)}."
    return "\n".join([f"### {section.heading}\n", f"{about} {verbs}\n", *rows, ""])


def _row(key: Key, verbs: list[str]) -> str:
    infos = {verb: key_info(configuration_class(verb), key) for verb in verbs}
    known = {verb: info for verb, info in infos.items() if info}
    default = default_text({verb: info.default for verb, info in known.items()})
    info = next(iter(known.values()))
    is_repeated = info.allowed.removeprefix("a ") == info.type
    allowed = "" if is_repeated else f"; allowed: {info.allowed}"
    start = f"- **`{format_key(key)}`**: {info.type}; default: {default}{allowed}."
    return f"{start} {info.field.meaning}".rstrip()


def _anchor(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-")


if __name__ == "__main__":
    sys.stdout.write(reference())
