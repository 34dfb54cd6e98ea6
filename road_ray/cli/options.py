"""Options and arguments that several commands share, and output as a table or as JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

_ours = logging.getLogger("road_ray")


def _say_more(wanted: bool) -> None:
    if wanted:
        logging.getLogger().setLevel(logging.INFO)  # libraries too
        _ours.setLevel(logging.DEBUG)


def is_verbose() -> bool:
    """Return True if -v was given."""
    return _ours.isEnabledFor(logging.DEBUG)


JsonOption = Annotated[bool, typer.Option("--json", help="print JSON")]
PresetOption = Annotated[str | None, typer.Option("--preset", help="start from a named preset")]
QuietOption = Annotated[bool, typer.Option("-q", help="no progress output")]
VerboseOption = Annotated[
    bool,
    typer.Option("-v", callback=_say_more, help="show library logs and tracebacks"),
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="number of Ray Train workers; 0: this process")
]
GpusOption = Annotated[
    float | None, typer.Option("--gpus-per-worker", help="number of GPUs per worker")
]
SeedOption = Annotated[
    int | None, typer.Option(help="random seed of weights, data order and masks")
]
AddressOption = Annotated[
    str | None, typer.Option("--address", help="address of a running Ray cluster")
]


def show_list(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Print rows as an aligned table, or as one JSON list."""
    if as_json:
        typer.echo(json.dumps(rows))
        return
    from road_ray.reporting.tables import aligned

    typer.echo(aligned(rows))


@dataclass(frozen=True)
class CommandLine:
    """Sources of a verb's configuration: a preset, over it a YAML file, over that overrides."""

    preset: str | None
    path: Path | None
    overrides: tuple[str, ...]

    @classmethod
    def read(cls, words: Sequence[str], *, preset: str | None = None, **flags: Any) -> CommandLine:
        """Return the parts of the words after a verb. The first word is the YAML file unless it is
        an override. Flags are overrides that count last; those that are None are left out.
        """
        path = Path(words[0]) if words and "=" not in words[0] else None
        own = [f"{key}={value}" for key, value in flags.items() if value is not None]
        return cls(preset, path, (*(words if path is None else words[1:]), *own))

    def config(self, verb: str) -> Any:
        """Return the configuration of ``verb``."""
        from road_ray.verbs import configure

        return configure(verb, preset=self.preset, path=self.path, overrides=self.overrides)
