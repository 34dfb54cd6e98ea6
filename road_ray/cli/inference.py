"""``road predict``, ``serve``, ``export`` and ``push`` of finished models; ``road label``."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from road_ray.cli.options import (
    AddressOption,
    GpusOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    VerboseOption,
    argument,
    tell,
)
from road_ray.errors import ConfigError, counted
from road_ray.reporting.text_tables import aligned
from road_ray.system.files import STDIN, check_input, check_new

if TYPE_CHECKING:
    from road_ray.inference.input_rows import ColumnChoice

_INPUTS = "CSV, TSV, JSONL, JSON, Parquet, SQuAD JSON or text file; - for standard input"
InputArgument = Annotated[str, typer.Argument(metavar="INPUT", help=_INPUTS)]
OutputOption = Annotated[
    Path | None,
    typer.Option(help="JSONL, CSV or TSV file, by suffix; default: JSONL to standard output"),
]
_COLUMNS = "column to read a field of the model from, such as text=body"
ColumnOption = Annotated[
    list[str] | None, typer.Option("--column", metavar="FIELD=NAME", help=_COLUMNS)
]
_KEPT = "column to copy to the output; default: all that the model does not read"
KeepOption = Annotated[list[str] | None, typer.Option(metavar="[NEW=]NAME", help=_KEPT)]
IgnoreOption = Annotated[list[str] | None, typer.Option(metavar="NAME", help="column to leave out")]
ConfidenceOption = Annotated[
    float, typer.Option(help="no label below this probability", min=0, max=1)
]
WorkersOption = Annotated[
    int | None, typer.Option(help="number of Ray actors with the model", min=1)
]


def predict(
    model: ModelArgument,
    source: InputArgument = "-",
    output: OutputOption = None,
    columns: ColumnOption = None,
    keep: KeepOption = None,
    ignore: IgnoreOption = None,
    head: Annotated[str | None, typer.Option(help="task of the head, if there are several")] = None,
    n_best: Annotated[int, typer.Option(help="number of answers to list", min=1, max=20)] = 1,
    threshold: Annotated[
        float | None, typer.Option(help="no-answer threshold, or inf, or a label's probability")
    ] = None,
    min_confidence: ConfidenceOption = 0.0,
    precision: Annotated[
        Literal["fp32", "bf16", "auto"], typer.Option(help="auto: the faster one")
    ] = "fp32",
    max_length_tokens: Annotated[
        int | None, typer.Option(help="most tokens of a row; default: as in training")
    ] = None,
    workers: WorkersOption = None,
    gpus_per_worker: GpusOption = None,
    address: AddressOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Predict every row of a file, in order.

    Columns are those of the training; others are copied. To resume after an interruption, run the
    same command.
    """
    check_input(source)  # before torch is imported and a cluster started
    output = None if output is None else check_new(output)
    chosen = _chosen(model, head, source, (columns or [], keep or [], ignore or []))
    options: dict[str, Any] = {"head": head, "precision": precision, "threshold": threshold}
    options |= {"max_length_tokens": max_length_tokens, "min_confidence": min_confidence}
    options["n_best"] = n_best
    pool = _pool(model, options, output, workers, gpus_per_worker or 0.0, address)
    from road_ray.inference.input_rows import input_rows
    from road_ray.inference.load_model import load
    from road_ray.inference.predict_file import json_line, predict_file, predicted

    # Of a pool it only says what fields the model has, and a GPU is for the actors.
    predictor = load(model, **options, device="cpu" if pool else None)
    if output is None:
        for predictions in predicted(predictor, input_rows(source, chosen, predictor.trained)):
            for prediction in predictions:
                typer.echo(json_line(prediction))
        return
    given: dict[str, Any] = {"model": model, "columns": chosen}
    with pool or nullcontext() as chunks:
        rows = predict_file(predictor, source, output, predict=chunks, **given)
    told = [f"{counted(rows, 'prediction')}: {output}"]
    if predictor.trained.columns and source != STDIN and not columns and head is None:
        command = shlex.join(["road", "evaluate", model, source])
        told.append(f"next, if the rows have the columns and labels of the training: {command}")
    tell({"output": str(output), "rows": rows}, as_json, *told)


def _chosen(
    model: str, head: str | None, source: str, words: tuple[list[str], list[str], list[str]]
) -> ColumnChoice:
    """Return the choice of --column, --keep and --ignore. If the model records its own columns they
    are checked against the first row, before torch is imported; else ``input_rows`` does so later.
    """
    from road_ray.data.model_files import head_directory, model_record
    from road_ray.inference.input_rows import ColumnChoice, TrainedInput, input_rows

    columns, keep, ignore = words
    fields = dict(_column(word, "--column") for word in columns)
    copied = dict(_column(word if "=" in word else f"{word}={word}", "--keep") for word in keep)
    chosen, place = ColumnChoice(fields, copied, ignore), Path(model).expanduser()
    record = model_record(head_directory(place, head)) if place.is_dir() else {}
    trained = TrainedInput.of_record(record)
    if source != STDIN and trained.fields:
        next(input_rows(source, chosen, trained))
    return chosen


def _pool(
    model: str,
    options: dict[str, Any],
    output: Path | None,
    workers: int | None,
    gpus: float,
    address: str | None,
) -> Any:
    """Return the context of the actors that predict, None if this process does."""
    if gpus and not (workers or address):
        message = f"--gpus-per-worker {gpus:g}: there are no workers without --workers"
        raise ConfigError(f"{message} or --address\n  fix: add --workers 1, or leave it out")
    if not (workers or address):
        return None
    if output is None:
        raise ConfigError("--workers and --address: need a file to write\n  fix: add --output FILE")
    from road_ray.distributed.connection import check_machine

    check_machine(workers or 0, address)
    from road_ray.distributed.batch_inference import batch_inference
    from road_ray.inference.predict_file import chunk_predictor

    place = str(Path(model).resolve()) if Path(model).exists() else model
    how: dict[str, Any] = {"workers": workers, "gpus": gpus, "address": address}
    return batch_inference(chunk_predictor, place, options, **how)


def _column(word: str, option: str) -> tuple[str, str]:
    """Return the parts of ``NEW=NAME``. Raises ``ConfigError`` if one is empty."""
    field, _, name = word.partition("=")
    if not (field and name):
        allowed = {"--column": "FIELD=NAME, such as text=body", "--keep": "NAME or NEW=NAME"}
        raise ConfigError(f"{option} {word}\n  allowed: {allowed[option]}")
    return field, name


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
    address: AddressOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Serve the predictions of a model over HTTP until Ctrl-C.

    Settings: head, precision, max_length_tokens, threshold, n_best, min_confidence,
    cpus_per_replica, gpus_per_replica, max_batch_rows, max_request_rows, max_request_bytes,
    max_row_tokens, timeout_seconds, stop_seconds. docs/guides/serving.md has their meanings and
    defaults.
    """
    from road_ray.config import load
    from road_ray.distributed.serving.config import ServingConfig

    flags = {"model": model, "replicas": replicas, "token_env": token_env}
    overrides = [f"{name}={value}" for name, value in flags.items() if value is not None]
    config = load(ServingConfig, overrides=[*(settings or []), *overrides])
    from road_ray.distributed.serving.server import serve_model

    def ready(url: str, task: str) -> None:
        text = f"serving {model} ({task}): {url}/predict   page: {url}/docs"
        tell({"url": url, "model": model, "task": task}, as_json, text)

    serve_model(config, ready, host=host, port=port, address=address)


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
    tell(
        {"directory": str(directory), "onnx": facts},
        as_json,
        aligned(recipe.measured_rows(facts)),
        f"exported: {directory}",
        f"next: {shlex.join(['road', 'predict', str(directory)])} FILE",
    )


def push(
    model: Annotated[str, argument("RUN", "run or model directory")],
    repository: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="repository of the hub")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="list files and sizes; upload nothing")
    ] = False,
    public: Annotated[
        bool, typer.Option("--public", help="a repository that everybody can read")
    ] = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Upload a model to a private repository of the Hugging Face hub.

    Only the files of a model in hf/ are sent, by their names.
    """
    from road_ray.inference import hub_upload as upload

    upload.check_repository(repository)
    files, others = upload.model_files(model)
    sizes = {name: path.stat().st_size for name, path in files.items()}
    rows = [{"file": name, "bytes": f"{size:,}"} for name, size in sizes.items()]
    if not as_json:  # before it is sent
        typer.echo(aligned(rows))
        typer.echo(f"{len(files)} files, {sum(sizes.values()):,} bytes")
        if others:
            typer.echo(f"not sent: {', '.join(others)}")
    url = None if dry_run else upload.push(model, files, repository, public=public)
    again = ["road", "push", model, repository, *(["--public"] if public else [])]
    following = ["road", "predict", repository, "FILE"] if url else again
    kind = "public" if public else "private"
    tell(
        {"repository": repository, "url": url, "files": sizes, "left_out": others},
        as_json,
        f"sent to {url} ({kind})" if url else f"nothing was sent to {repository}",
        f"next: {shlex.join(following)}",
    )


def label(
    url: Annotated[str, typer.Argument(help="address of the server, such as http://host:8000/v1")],
    source: InputArgument,
    labels: Annotated[str, typer.Option(help="names of the labels, with commas between them")],
    prompt: Annotated[
        Path, typer.Option(help="text file with {text} or other columns, and {labels}")
    ],
    output: Annotated[Path, typer.Option(help="Parquet, CSV or JSONL file, by suffix")],
    model: Annotated[str, typer.Option(help="name of the model; default: the server's first")] = "",
    votes: Annotated[
        int, typer.Option(help="samples a row where there are no log-probabilities", min=1)
    ] = 5,
    concurrency: Annotated[int, typer.Option(help="requests at a time", min=1)] = 8,
    timeout: Annotated[float, typer.Option(help="seconds of one request", min=0.1)] = 60.0,
    key_variable: Annotated[
        str, typer.Option(help="environment variable that has the key of the address")
    ] = "OPENAI_API_KEY",
    price: Annotated[
        tuple[float, float],
        typer.Option(metavar="IN OUT", help="prices of a million tokens of prompts and of answers"),
    ] = (0.0, 0.0),
    as_json: JsonOption = False,
) -> None:
    """Label every row of a file by an LLM behind an OpenAI-compatible address.

    The output is a teacher for `distillation.teachers`. To resume after an interruption, run the
    same command.
    """
    from road_ray.inference.label_rows import LabelSettings, label_rows

    for file in (source, str(prompt)):
        check_input(file)
    names = tuple(name.strip() for name in labels.split(","))
    options = (model, votes, concurrency, timeout, key_variable)
    settings = LabelSettings(url, names, prompt.read_text(encoding="utf-8"), *options)
    counts = label_rows(source, output, settings)
    cost = (price[0] * counts.prompt_tokens + price[1] * counts.answer_tokens) / 1e6
    told = f"{counts}; cost {cost:.2f}" if any(price) else str(counts)
    tell(
        {"output": str(output), **vars(counts), "cost": cost},
        as_json,
        f"{counted(counts.rows, 'row')}: {output}   {told}",
        f"next: road distill init=MODEL distillation.teachers={shlex.quote(str(output))}",
    )
