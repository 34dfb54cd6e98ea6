"""``road presets``: lists the presets, or prints the YAML file of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from road_ray.cli.completion import complete_preset
from road_ray.cli.configuration.schema import schema, schema_name, write_file
from road_ray.cli.options import JsonOption, show_list
from road_ray.errors import ConfigError


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
