"""What the commands share: options with one meaning everywhere, and lists as a table or as JSON."""

from __future__ import annotations

import json
import logging
from typing import Annotated, Any

import typer

_ours = logging.getLogger("road_ray")


def _say_more(wanted: bool) -> None:
    if wanted:
        logging.getLogger().setLevel(logging.INFO)  # libraries too
        _ours.setLevel(logging.DEBUG)


def is_verbose() -> bool:
    """Whether -v was given: notes of libraries, and the traceback of an error."""
    return _ours.isEnabledFor(logging.DEBUG)


JsonOption = Annotated[bool, typer.Option("--json", help="print JSON")]
PresetOption = Annotated[str | None, typer.Option("--preset", help="start from a named preset")]
QuietOption = Annotated[bool, typer.Option("-q", help="no progress")]
VerboseOption = Annotated[
    bool,
    typer.Option("-v", callback=_say_more, help="notes of libraries, tracebacks of errors"),
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="Ray Train workers; 0: this process")
]
GpusOption = Annotated[float | None, typer.Option("--gpus-per-worker", help="GPUs of each worker")]
AddressOption = Annotated[str | None, typer.Option("--address", help="a running Ray cluster")]


def show_list(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Print the rows, aligned for people or as one JSON list."""
    if as_json:
        typer.echo(json.dumps(rows))
        return
    from road_ray.reporting.tables import aligned

    typer.echo(aligned(rows))
