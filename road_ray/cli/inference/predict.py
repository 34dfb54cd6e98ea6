"""``road predict``: predictions of a finished model for the rows of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from road_ray.cli.options import JsonOption, QuietOption, VerboseOption
from road_ray.errors import ConfigError


def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="run directory, model directory or hub name")
    ],
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="CSV, TSV, JSONL, JSON, Parquet, SQuAD JSON or text file; - for standard input",
        ),
    ] = "-",
    output: Annotated[
        Path | None,
        typer.Option(help="JSONL, CSV or TSV file, by suffix; default: JSONL to standard output"),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="FIELD=NAME", help="column of a field, such as text=body"),
    ] = None,
    head: Annotated[str | None, typer.Option(help="task of the head, if there are several")] = None,
    n_best: Annotated[int, typer.Option(help="number of answers to list", min=1)] = 1,
    threshold: Annotated[
        float | None, typer.Option(help="no-answer threshold; default: the stored one")
    ] = None,
    precision: Annotated[str, typer.Option(help="fp32, bf16, or auto: the faster one")] = "fp32",
    max_length_tokens: Annotated[
        int | None, typer.Option(help="tokens of a row; default: those of the training")
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Predict the rows of a file, in their order.

    To resume after an interruption, run the same command.
    """
    named = dict(_column(word) for word in columns or [])
    if precision not in ("fp32", "bf16", "auto"):
        raise ConfigError(f"--precision {precision}\n  allowed: fp32, bf16, auto")
    from road_ray.inference.input_rows import input_rows
    from road_ray.inference.predict import predict_file
    from road_ray.inference.predictor import load

    predictor = load(
        model,
        head=head,
        precision=precision,  # type: ignore[arg-type]
        max_length_tokens=max_length_tokens,
        threshold=threshold,
        n_best=n_best,
    )
    if output is None:
        for prediction in predictor.predict(input_rows(source, named, predictor.fields)):
            typer.echo(json.dumps(prediction, ensure_ascii=False))
        return
    rows = predict_file(
        predictor, source, output, model=model, columns=named, report_progress=not quiet
    )
    made = {"output": str(output), "rows": rows}
    typer.echo(json.dumps(made) if as_json else f"{rows} predictions: {output}")


def _column(word: str) -> tuple[str, str]:
    field, equals, name = word.partition("=")
    if not (field and equals and name):
        raise ConfigError(f"--column {word}\n  allowed: FIELD=NAME, such as text=body")
    return field, name
