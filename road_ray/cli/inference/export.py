"""``road export``: writes a finished model in the format of another runtime."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from road_ray.cli.options import JsonOption, ModelArgument, QuietOption, VerboseOption


def export(
    model: ModelArgument,
    to: Annotated[Literal["onnx"], typer.Option("--to", help="format")] = "onnx",
    output: Annotated[
        Path | None, typer.Option(help="new directory; default: onnx in MODEL")
    ] = None,
    quantize: Annotated[
        Literal["int8"] | None,
        typer.Option(help="int8: a quarter of the size, about twice as fast on a CPU"),
    ] = None,
    head: Annotated[str | None, typer.Option(help="task of the head, if there are several")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Write a model with its head and tokenizer for ONNX Runtime.

    Compares the logits with PyTorch's. `road predict` and `road_ray.load` take the directory.
    """
    from road_ray.recipes import export as recipe

    directory, facts = recipe.export(model, output, head=head, quantize=quantize)
    if as_json:
        typer.echo(json.dumps({"directory": str(directory), "onnx": facts}))
        return
    from road_ray.reporting.text_tables import aligned

    typer.echo(aligned(recipe.measured_rows(facts)))
    typer.echo(f"exported: {directory}")
    typer.echo(f"next: {shlex.join(['road', 'predict', str(directory)])} FILE")
