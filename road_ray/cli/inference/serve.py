"""``road serve``: serves a finished model over HTTP."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from road_ray.cli.options import AddressOption, JsonOption, ModelArgument, VerboseOption


def serve(
    model: ModelArgument,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="settings, such as max_request_rows=64"),
    ] = None,
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="port to listen on", min=1, max=65535)] = 8000,
    replicas: Annotated[
        int | None, typer.Option(help="processes with a copy of the model", min=1)
    ] = None,
    token_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="environment variable that holds the token clients must send"
        ),
    ] = None,
    max_batch_rows: Annotated[
        int | None, typer.Option(help="most rows of a batch of combined requests", min=1)
    ] = None,
    max_wait_ms: Annotated[
        float | None,
        typer.Option(help="longest wait of a request for others to join its batch", min=0),
    ] = None,
    address: AddressOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Serve the predictions of a model over HTTP until Ctrl-C.

    Settings: head, precision, max_length_tokens, threshold, n_best, cpus_per_replica,
    gpus_per_replica, max_request_rows, max_request_bytes, max_row_characters, max_row_tokens,
    timeout_seconds, stop_seconds. docs/guides/serving.md has their meanings and defaults.
    """
    from road_ray.config import load
    from road_ray.distributed.serving.config import ServingConfig

    flags = {
        "model": model,
        "replicas": replicas,
        "token_env": token_env,
        "max_batch_rows": max_batch_rows,
        "max_wait_ms": max_wait_ms,
    }
    overrides = [f"{name}={value}" for name, value in flags.items() if value is not None]
    config = load(ServingConfig, overrides=[*(settings or []), *overrides])
    from road_ray.distributed.serving.server import Listening, serve_model

    listening = Listening(host, port, address)

    def ready(task: str) -> None:
        summary = {"url": listening.url, "model": model, "task": task}
        text = f"serving {model} ({task}): {listening.url}/predict   page: {listening.url}/docs"
        typer.echo(json.dumps(summary) if as_json else text)

    serve_model(config, listening, ready)
