"""``road report``: page of a run, a sweep or several runs, or its figures for a paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from road_ray.cli.completion import complete_run
from road_ray.cli.options import JsonOption


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|SWEEP|FOLDER...",
            help="run, sweep or folder; several are compared",
            autocompletion=complete_run,
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="output file, or directory of figures")] = None,
    kind: Annotated[
        Literal["html", "svg", "png", "pdf"],
        typer.Option("--format", help="html: a page; svg, png, pdf: figures for a paper"),
    ] = "html",
    baseline: Annotated[
        str | None, typer.Option(help="group that the others are compared with, or a run of it")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write an HTML page for a run, a sweep or a folder of runs."""
    from road_ray.reporting.report import report as write

    written = write(paths, out, kind, baseline)
    if as_json:
        typer.echo(json.dumps([str(path) for path in written]))
    else:
        for path in written:
            typer.echo(path)
