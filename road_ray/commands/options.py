"""What the commands share: options with one meaning everywhere, and lists as a table or as JSON."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="print JSON")]


def show_list(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Print the rows, aligned for people or as one JSON list."""
    if as_json:
        typer.echo(json.dumps(rows))
        return
    from road_ray.reporting.tables import aligned

    typer.echo(aligned(rows))
