"""``road explain``: description of one key of the configuration."""

from __future__ import annotations

import difflib
import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from road_ray.cli.completion import complete_key
from road_ray.cli.options import JsonOption
from road_ray.errors import ConfigError

if TYPE_CHECKING:
    from road_ray.config.dotted_keys import Key
    from road_ray.config.key_explanation import KeyInfo

_WIDTH = 100
_LABEL = 10  # columns of "meaning:" and the spaces after it
_MOST_NEAR = 5


@dataclass(frozen=True)
class Explanation:
    """Description of a configuration key for the verbs in which it has the same meaning."""

    info: KeyInfo
    below: tuple[KeyInfo, ...]
    defaults: Mapping[str, Any]
    presets: Mapping[str, Any]

    @property
    def as_dict(self) -> dict[str, Any]:
        """Return the fields that ``--json`` prints."""
        from road_ray.config.dotted_keys import format_key

        info = self.info
        about = {"key": format_key(info.key), "verbs": list(self.defaults), "type": info.type}
        about |= {"allowed": info.allowed, "meaning": info.meaning, "source": info.source}
        fields = [
            {"key": format_key(below.key), "type": below.type, "meaning": below.meaning}
            for below in self.below
        ]
        defaults = {verb: _plain(value) for verb, value in self.defaults.items()}
        return about | {"default": defaults, "presets": dict(self.presets), "fields": fields}


def explain(
    key: Annotated[
        str,
        typer.Argument(
            help="key or section, such as optimizer.peak_lr", autocompletion=complete_key
        ),
    ],
    verb: Annotated[
        str | None, typer.Argument(help="verb; default: all verbs with that key")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Explain a configuration key: type, values, default, meaning."""
    from road_ray.verbs import CONFIGURABLE

    explanations = explanations_of(tuple(key.split(".")), [verb] if verb else CONFIGURABLE)
    if not explanations:
        raise _unknown(key, verb)
    if as_json:
        typer.echo(json.dumps([explanation.as_dict for explanation in explanations]))
        return
    typer.echo("\n\n".join(map(_text, explanations)))


def explanations_of(key: Key, verbs: Iterable[str]) -> list[Explanation]:
    """Return one explanation for each meaning that a key has in the verbs."""
    from road_ray.config.key_explanation import key_info, section_infos
    from road_ray.verbs import configuration_class

    groups: dict[tuple[str, ...], list[tuple[str, KeyInfo]]] = {}
    for verb in verbs:
        info = key_info(configuration_class(verb), key)
        if info is not None:
            same = (info.type, info.allowed, info.meaning, info.source)
            groups.setdefault(same, []).append((verb, info))
    explanations = []
    for members in groups.values():
        verb, info = members[0]
        below = tuple(section_infos(configuration_class(verb), key)) if info.keys_below else ()
        defaults = {verb: info.default for verb, info in members}
        presets = {} if info.keys_below else _values_in_presets(key, defaults)
        explanations.append(Explanation(info, below, defaults, presets))
    return explanations


def default_text(defaults: Mapping[str, object]) -> str:
    """Return the default that all verbs share, or each default with its verbs."""
    texts = _names_by_value(defaults)
    return next(iter(texts)) if len(texts) == 1 else _values_with_names(defaults)


def _values_with_names(values: Mapping[str, object]) -> str:
    """Return each value with its names: ``0.0005 (pretrain); 0.0003 (distill, teachers)``."""
    return "; ".join(f"{v} ({', '.join(names)})" for v, names in _names_by_value(values).items())


def _names_by_value(values: Mapping[str, object]) -> dict[str, list[str]]:
    from road_ray.config.allowed_values import format_value
    from road_ray.config.key_explanation import UNSET

    names_of: dict[str, list[str]] = {}
    for name, value in values.items():
        names_of.setdefault("must be set" if value is UNSET else format_value(value), []).append(
            name
        )
    return names_of


def _values_in_presets(key: Key, defaults: Mapping[str, object]) -> dict[str, Any]:
    """Return the presets that change the default of their verb."""
    from road_ray.config import to_dict
    from road_ray.config.key_explanation import UNSET, value_at
    from road_ray.presets import PRESETS
    from road_ray.verbs import preset_config

    values = {
        preset.name: (value_at(to_dict(preset_config(preset.name)), key), defaults[preset.verb])
        for preset in PRESETS.values()
        if preset.verb in defaults
    }
    return {
        name: value
        for name, (value, default) in values.items()
        if value is not UNSET and value != default
    }


def _text(explanation: Explanation) -> str:
    from road_ray.config.dotted_keys import format_key

    info = explanation.info
    lines = [format_key(info.key)]
    section = bool(explanation.below) and info.field.only_sections
    for label, text in (
        ("verbs", ", ".join(explanation.defaults)),
        ("type", info.type),
        ("allowed", "" if section else info.allowed),
        ("default", "" if section else default_text(explanation.defaults)),
        ("meaning", info.meaning),
        ("source", info.source),
        ("presets", _values_with_names(explanation.presets)),
    ):
        lines += _labelled(label, text)
    width = max((len(str(below.key[-1])) for below in explanation.below), default=0)
    if explanation.below:
        lines.append("  keys:")
    for below in explanation.below:
        room = _WIDTH - width - 6
        meaning = textwrap.shorten(below.meaning or below.type, room, placeholder=" ...")
        lines.append(f"    {below.key[-1]!s:<{width}}  {meaning}")
    return "\n".join(lines)


def _labelled(label: str, text: str) -> list[str]:
    start = f"  {label}:".ljust(_LABEL + 2)
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
        break_long_words=False,
    )


def _plain(value: object) -> Any:
    from road_ray.config.key_explanation import UNSET

    return None if value is UNSET else value


def _unknown(key: str, verb: str | None) -> ConfigError:
    from road_ray.config.dotted_keys import known_keys
    from road_ray.config.keys_of_other_libraries import NAMES_ELSEWHERE
    from road_ray.verbs import CONFIGURABLE, configuration_class

    names = (verb,) if verb else CONFIGURABLE
    known = Counter(k for name in names for k in known_keys(configuration_class(name)))
    last = NAMES_ELSEWHERE.get(name := key.rpartition(".")[2], name)
    lasts = difflib.get_close_matches(last, {k.rpartition(".")[2] for k in known}, 1, 0.7)
    same_last = [k for k in known if k.rpartition(".")[2] in lasts]
    if name == key:  # without its section: the key that most verbs have
        same_last.sort(key=lambda k: -known[k])
    else:
        same_last.sort(key=lambda k: -difflib.SequenceMatcher(None, k, key).ratio())
    near = list(dict.fromkeys([*same_last, *difflib.get_close_matches(key, known)]))[:_MOST_NEAR]
    place = f" of `road {verb}`" if verb else ""
    allowed = f"  nearest: {', '.join(near)}\n  fix: road explain {near[0]}" if near else ""
    return ConfigError(
        f"{key}: no such configuration key{place}\n"
        + (allowed or "  fix: `road schema VERB` has all keys of a verb")
    )
