"""``road report``: a page of a run, a sweep or several runs; or its figures for a paper."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from road_ray.cli.options import JsonOption


class Format(StrEnum):
    """A page, or its figures one a file."""

    html = "html"
    svg = "svg"
    png = "png"


def report(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN|SWEEP|FOLDER...", help="several are compared")
    ],
    out: Annotated[Path | None, typer.Option(help="file, or directory for figures")] = None,
    kind: Annotated[
        Format, typer.Option("--format", help="a page, or its figures for a paper")
    ] = Format.html,
    baseline: Annotated[
        str | None, typer.Option(help="the group that others are held against")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """One HTML page for a run, a sweep or a folder of runs."""
    from road_ray.reporting.report import report as make

    made = make(paths, out, kind.value, baseline)
    if as_json:
        typer.echo(json.dumps([str(path) for path in made]))
    else:
        for path in made:
            typer.echo(path)
