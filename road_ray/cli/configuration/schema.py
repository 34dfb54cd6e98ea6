"""``road schema``: the JSON schema of a verb's configuration, for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from road_ray.errors import ResourceError


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
