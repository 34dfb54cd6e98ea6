"""``road push``: uploads a finished model to a repository of the Hugging Face hub."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from road_ray.cli.completion import complete_run
from road_ray.cli.options import JsonOption, VerboseOption


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
    replace: Annotated[
        bool, typer.Option("--replace", help="replace files that the repository has")
    ] = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Upload a model to a private repository of the Hugging Face hub.

    Only the files of hf/ are sent.
    """
    from road_ray.inference import hub_upload as upload
    from road_ray.reporting.text_tables import aligned

    upload.check_repository(repository)
    files = upload.model_files(model)
    rows = [{"file": file.name, "bytes": f"{file.size_bytes:,}"} for file in files]
    total = sum(file.size_bytes for file in files)
    if not as_json:
        typer.echo(aligned(rows))
        typer.echo(f"{len(files)} files, {total:,} bytes")
    url = None if dry_run else upload.push(files, repository, public=public, replace=replace)
    if as_json:
        sizes = {file.name: file.size_bytes for file in files}
        typer.echo(json.dumps({"repository": repository, "url": url, "files": sizes}))
    else:
        kind = "public" if public else "private"
        typer.echo(f"sent to {url} ({kind})" if url else f"nothing was sent to {repository}")
