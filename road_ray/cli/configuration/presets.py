"""``road presets``: lists the presets, or shows one as a commented YAML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from road_ray.cli.completion import complete_preset
from road_ray.cli.configuration.schema import schema, schema_name, write_file
from road_ray.cli.options import JsonOption, show_list
from road_ray.errors import ConfigError

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
        write_file(output, _annotated(chosen))
    elif as_json:
        row = {"name": name, "verb": chosen.verb, "about": chosen.about}
        typer.echo(json.dumps(row | {"config": to_dict(chosen.make())}))
    else:
        typer.echo(_annotated(chosen), nl=False)


def _annotated(preset: Preset[Config]) -> str:
    """Write the YAML file of a preset; its first line names the schema beside it."""
    from road_ray.config.yaml_files.writer import annotated_yaml, comment

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
