"""``road data errors``: training labels that teachers who have not seen them contradict."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Annotated

import typer

from road_ray.cli.completion import complete_run
from road_ray.cli.options import JsonOption

_SHOWN = 10


def errors(
    teachers: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="run of `road teachers` with num_folds, or its teachers.json",
            autocompletion=complete_run,
        ),
    ],
    output: Annotated[Path, typer.Option(help="CSV file to write")] = Path("errors.csv"),
    relabel: Annotated[
        bool, typer.Option("--relabel", help="correct suspected labels instead of dropping rows")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Rank the training rows by how much teachers of other folds contradict their label.

    The file is a value of data.corrections: its column `correction` drops the suspected rows. Look
    through it first, and clear or change what you do not agree with.
    """
    from road_ray.data.training_rows import FIELDS
    from road_ray.errors import ConfigError
    from road_ray.recipes.label_errors import label_errors
    from road_ray.reporting.text_tables import aligned

    if output.exists():
        raise ConfigError(f"{output}: exists\n  fix: name a new file: --output\n  kept: {output}")
    rows = label_errors(
        teachers / "teachers.json" if teachers.is_dir() else teachers, relabel=relabel
    )
    with output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    suspected = sum(bool(row["correction"]) for row in rows)
    if as_json:
        summary = {"output": str(output), "rows": len(rows), "suspected": suspected}
        typer.echo(json.dumps(summary))
        return
    columns = ("label", "suggested", "margin", "text")
    typer.echo(aligned([{c: str(row[c])[:60] for c in columns} for row in rows[:_SHOWN]]))
    typer.echo(f"{suspected:,} of {len(rows):,} labels are suspected: {output}")
    typer.echo(f"next: look through it, then road finetune ... data.corrections={output}")
