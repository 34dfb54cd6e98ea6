"""``road presets``, ``road schema`` and ``road explain``: what may be configured."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from road_ray.cli.completion import complete_key, complete_preset
from road_ray.cli.options import JsonOption, show_list
from road_ray.errors import ConfigError, ResourceError

if TYPE_CHECKING:
    from road_ray.config.schema import Key

_WIDTH = 100
_MOST_NEAR = 5


def presets(
    name: Annotated[
        str | None,
        typer.Argument(help="preset to show as YAML", autocompletion=complete_preset),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="YAML file to write, with its editor schema beside it")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the presets, or print the YAML file of one."""
    from road_ray.config import to_dict
    from road_ray.presets import PRESETS, get_preset
    from road_ray.verbs import preset_config

    if name is None:
        rows = [{"name": p.name, "verb": p.verb, "about": p.about} for p in PRESETS.values()]
        show_list(rows, as_json)
        return
    chosen = get_preset(name)
    if output is not None:
        if output.exists():
            raise ConfigError(f"{output}: exists\n  fix: name a new file\n  kept: {output}")
        schema(chosen.verb, output.with_name(schema_name(chosen.verb)))
        write_file(output, chosen.text)
        typer.echo(f"next: road {chosen.verb} {output}")
    elif as_json:
        row = {"name": name, "verb": chosen.verb, "about": chosen.about}
        typer.echo(json.dumps(row | {"config": to_dict(preset_config(chosen.name))}))
    else:
        typer.echo(chosen.text, nl=False)


def schema(
    verb: Annotated[str, typer.Argument(help="verb, sweep or submit")],
    output: Annotated[
        Path | None, typer.Option(help="file to write; default: standard output")
    ] = None,
) -> None:
    """Print the JSON schema of a verb's configuration, for editors."""
    if output is None:
        typer.echo(schema_text(verb), nl=False)
        return
    write_file(output, schema_text(verb))


def schema_text(verb: str) -> str:
    """Return the JSON schema of the configuration of a verb, of sweep files or cluster files."""
    from road_ray.config import json_schema
    from road_ray.presets import PRESETS
    from road_ray.verbs import configuration_class

    names = [p.name for p in PRESETS.values() if p.verb == verb]
    return json.dumps(json_schema(configuration_class(verb), names), indent=1) + "\n"


def schema_name(verb: str) -> str:
    """Return the name of a schema file beside configurations of a verb."""
    return f"{verb}.schema.json"


def write_file(path: Path, text: str) -> None:
    """Write a file and print its path. Raises ``ResourceError`` if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResourceError(f"{path}: cannot be written: {error.strerror}") from None
    typer.echo(path)


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
    """Explain a configuration key: values, default, meaning, presets."""
    from road_ray.config.messages import nearest_keys
    from road_ray.verbs import CONFIGURABLE, keys_of

    verbs = [verb] if verb else CONFIGURABLE
    found = explanations(tuple(key.split(".")), verbs)
    if not found:
        near = nearest_keys(key, keys_of(verbs))[:_MOST_NEAR]
        fix = f"  nearest: {', '.join(near)}\n  fix: road explain {near[0]}" if near else ""
        raise ConfigError(
            f"{key}: no such configuration key{f' of `road {verb}`' if verb else ''}\n"
            + (fix or "  fix: `road schema VERB` has all keys of a verb")
        )
    typer.echo(json.dumps(found) if as_json else "\n\n".join(map(_text, found)))


def explanations(key: Key, verbs: Iterable[str]) -> list[dict[str, Any]]:
    """Return one explanation for each meaning that a key has in the verbs."""
    from road_ray.config.schema import (
        UNSET,
        allowed,
        at,
        default_of,
        format_key,
        meaning_of,
        properties,
        schemas_of,
    )
    from road_ray.verbs import configuration_class

    found: dict[tuple[str, str], dict[str, Any]] = {}
    classes = {verb: configuration_class(verb) for verb in verbs}
    classes = {verb: kind for verb, kind in classes.items() if key[0] in kind.model_fields}
    schemas = schemas_of(tuple(dict.fromkeys(classes.values())))
    for verb, kind in classes.items():
        node = at(schemas[kind], key)
        if node is None:
            continue
        same = found.setdefault(
            (allowed(node), meaning_of(node)),
            {
                "key": format_key(key),
                "allowed": allowed(node),
                "meaning": meaning_of(node),
                "default": {},
                "keys": {name: meaning_of(below) for name, below in properties(node).items()},
            },
        )
        default = default_of(node)
        same["default"][verb] = None if default is UNSET else default
    return [e | {"presets": _values_in_presets(key, e["default"])} for e in found.values()]


def _values_in_presets(key: Key, verbs: Iterable[str]) -> dict[str, Any]:
    """Return the value that each preset of these verbs gives the key, by preset."""
    from road_ray.presets import PRESETS

    values = {}
    for preset in PRESETS.values():
        if preset.verb in verbs and ("preset: " in preset.text or str(key[-1]) in preset.text):
            value: Any = preset.values()
            for part in key:
                value = value.get(str(part)) if isinstance(value, dict) else None
            values[preset.name] = value
    return {name: value for name, value in values.items() if not isinstance(value, dict | None)}


def values_with_names(values: Mapping[str, object], *, shared: bool = False) -> str:
    """Return each value with its names: ``0.0005 (pretrain); 0.0003 (distill, teachers)``; with
    ``shared`` a single value without them.
    """
    from road_ray.config.schema import UNSET, format_value

    names_of: dict[str, list[str]] = {}
    for name, value in values.items():
        text = "must be set" if value is UNSET else format_value(value)
        names_of.setdefault(text, []).append(name)
    if shared and len(names_of) == 1:
        return next(iter(names_of))
    return "; ".join(f"{value} ({', '.join(names)})" for value, names in names_of.items())


def _text(explanation: Mapping[str, Any]) -> str:
    keys, default = explanation["keys"], explanation["default"]
    rows = {
        "verbs": ", ".join(default),
        "allowed": explanation["allowed"],
        "default": "" if keys else values_with_names(default, shared=True),
        "meaning": explanation["meaning"],
        "presets": values_with_names(explanation["presets"]),
    }
    lines = [explanation["key"]]
    for label, text in rows.items():
        start = f"  {label}:".ljust(12)
        lines += textwrap.wrap(
            text,
            _WIDTH,
            initial_indent=start,
            subsequent_indent=" " * len(start),
            break_on_hyphens=False,
            break_long_words=False,
        )
    width = max(map(len, keys), default=0)
    lines += ["  keys:"] if keys else []
    for name, meaning in keys.items():
        shown = textwrap.shorten(meaning, _WIDTH - width - 6, placeholder=" ...")
        lines.append(f"    {name:<{width}}  {shown}")
    return "\n".join(lines)
