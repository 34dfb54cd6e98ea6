"""``road export`` and ``road push``: models for other programs and for the hub."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from road_ray.cli.completion import complete_run
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


def push(
    model: Annotated[
        str,
        typer.Argument(metavar="RUN", help="run or model directory", autocompletion=complete_run),
    ],
    repository: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="repository of the hub")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="list files and sizes; upload nothing")
    ] = False,
    public: Annotated[
        bool, typer.Option("--public", help="a repository that everybody can read")
    ] = False,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="send files besides those of a model too"),
    ] = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Upload a model to a private repository of the Hugging Face hub.

    Only the files of a model in hf/ are sent, by their names.
    """
    from road_ray.inference import hub_upload as upload
    from road_ray.reporting.text_tables import aligned

    upload.check_repository(repository)
    files = upload.model_files(model, include or ())
    others = upload.left_out(model, files)
    sizes = {name: path.stat().st_size for name, path in files.items()}
    rows = [{"file": name, "bytes": f"{size:,}"} for name, size in sizes.items()]
    if not as_json:
        typer.echo(aligned(rows))
        typer.echo(f"{len(files)} files, {sum(sizes.values()):,} bytes")
        if others:
            typer.echo(f"not sent: {', '.join(others)} (--include NAME sends one)")
    url = None if dry_run else upload.push(model, files, repository, public=public)
    if as_json:
        entry = {"repository": repository, "url": url, "files": sizes, "left_out": others}
        typer.echo(json.dumps(entry))
    else:
        kind = "public" if public else "private"
        typer.echo(f"sent to {url} ({kind})" if url else f"nothing was sent to {repository}")
        following = ["road", "predict", repository, "FILE"]
        if not url:
            following = ["road", "push", model, repository, *(["--public"] if public else [])]
            following += [word for pattern in include or () for word in ("--include", pattern)]
        typer.echo(f"next: {shlex.join(following)}")
