"""``road presets | schema | check``: presets, JSON schemas, checks of the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from road_ray.cli.completion import complete_preset
from road_ray.cli.options import JsonOption, show_list
from road_ray.errors import ConfigError, ResourceError

if TYPE_CHECKING:
    from road_ray.config import Config
    from road_ray.presets import Preset


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
    """List the presets, or show one as YAML with comments."""
    from road_ray.config import to_dict
    from road_ray.presets import PRESETS, get_preset

    if name is None:
        rows = [{"name": p.name, "verb": p.verb, "about": p.about} for p in PRESETS.values()]
        show_list(rows, as_json)
        return
    chosen = get_preset(name)
    if output is not None:
        if output.exists():
            raise ConfigError(f"{output}: exists\n  fix: name a new file\n  kept: {output}")
        schema(chosen.verb, output.with_name(schema_name(chosen.verb)))
        _write(output, _annotated(chosen))
    elif as_json:
        row = {"name": name, "verb": chosen.verb, "about": chosen.about}
        typer.echo(json.dumps(row | {"config": to_dict(chosen.make())}))
    else:
        typer.echo(_annotated(chosen), nl=False)


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
    _write(output, schema_text(verb))


def schema_text(verb: str) -> str:
    """Return the JSON schema of the configuration of a verb, of sweep files or cluster files."""
    from road_ray.config import json_schema
    from road_ray.presets import PRESETS
    from road_ray.verbs import configuration_class

    names = [p.name for p in PRESETS.values() if p.verb == verb]
    return json.dumps(json_schema(configuration_class(verb), names), indent=1) + "\n"


def check(
    address: Annotated[str | None, typer.Option(help="address of a Ray cluster to check")] = None,
    root: Annotated[str | None, typer.Option(help="data root to check")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the environment: versions, devices, disk, data, cluster."""
    from road_ray.reporting.environment import findings

    rows, good = findings(address, root)
    show_list(rows, as_json)
    raise typer.Exit(0 if good else 4)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResourceError(f"{path}: cannot be written: {error.strerror}") from None
    typer.echo(path)


def schema_name(verb: str) -> str:
    return f"{verb}.schema.json"


def _annotated(preset: Preset[Config]) -> str:
    """Write the YAML file of a preset; its first line names the schema beside it."""
    from road_ray.config.annotated_yaml import annotated_yaml, comment

    verb, beside = preset.verb, schema_name(preset.verb)
    about = [
        *comment(f"Preset {preset.name} of `road {verb}`: {preset.about}"),
        *comment(
            f"Editors complete and check this file by the schema of the first line, which `road "
            f"schema {verb} --output {beside}` writes beside it."
        ),
    ]
    first = f"# yaml-language-server: $schema={beside}"
    return "\n".join([first, *about, "", annotated_yaml(preset.make())])
