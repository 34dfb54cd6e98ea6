"""``road check``: checks of the environment."""

from __future__ import annotations

from typing import Annotated

import typer

from road_ray.cli.options import JsonOption, show_list


def check(
    address: Annotated[str | None, typer.Option(help="address of a Ray cluster to check")] = None,
    root: Annotated[str | None, typer.Option(help="data root to check")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the environment: versions, devices, disk, data, cluster."""
    from road_ray.reporting.environment_check import findings

    rows, good = findings(address, root)
    show_list(rows, as_json)
    raise typer.Exit(0 if good else 4)
