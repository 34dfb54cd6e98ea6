"""``road presets | check | schema``: what there is, and whether it works here."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from road_ray.cli.options import JsonOption, show_list
from road_ray.verbs import VERBS


def presets(
    name: Annotated[str | None, typer.Argument(help="show this one as YAML")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the presets, or show one as YAML."""
    from road_ray.config import to_yaml
    from road_ray.presets import PRESETS, named

    if name is not None:
        chosen = named(name)
        typer.echo(f"# road {chosen.verb}: {chosen.about}\n{to_yaml(chosen.make())}", nl=False)
        return
    rows = [{"name": p.name, "verb": p.verb, "about": p.about} for p in PRESETS.values()]
    show_list(rows, as_json)


def check(
    address: Annotated[str | None, typer.Option(help="a Ray cluster to reach")] = None,
    root: Annotated[str | None, typer.Option(help="a data root to look at")] = None,
    as_json: JsonOption = False,
) -> None:
    """The environment: versions, devices, disk, data, cluster."""
    from road_ray.reporting.environment import findings

    rows, good = findings(address, root)
    show_list(rows, as_json)
    raise typer.Exit(0 if good else 4)


def schema(verb: Annotated[str, typer.Argument(help="pretrain, finetune, ...")]) -> None:
    """The JSON schema of a verb's configuration, for editors."""
    from road_ray.config import json_schema

    if verb not in VERBS:
        raise typer.BadParameter(f"{verb!r} has no configuration; known: {', '.join(VERBS)}")
    typer.echo(json.dumps(json_schema(VERBS[verb].config), indent=1))
