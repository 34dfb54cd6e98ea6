"""``road init``: writes a configuration that trains on a user's file."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from road_ray.cli.configuration import schema_name, schema_text
from road_ray.cli.options import JsonOption
from road_ray.errors import ConfigError

if TYPE_CHECKING:
    from road_ray.data.inspection.guess import Guess

_INIT = "google/electra-small-discriminator"


def init(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|FOLDER|hub:NAME",
            help="CSV, TSV, JSONL, JSON, Parquet, Arrow, SQuAD JSON, CoNLL or text",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(help="YAML file to write; default: named after the data")
    ] = None,
    label: Annotated[str | None, typer.Option(help="column of the label")] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="column of the text; twice for a pair")
    ] = None,
    kind: Annotated[Literal["classify", "regress"] | None, typer.Option(help="task")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--init", help=f"model to start from; default: {_INIT}; plain text needs none"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Guess the task of your data and write a configuration for it."""
    from road_ray.data.inspection.guess import Wishes, guess
    from road_ray.data.inspection.starter_config import longest_row, set_name, starter_yaml, verb_of

    if output is not None:
        _refuse_existing(output)
    task_guess = guess(source, Wishes(text or (), label, kind, longest_row(model or _INIT)))
    verb = verb_of(task_guess)
    place = output or Path(f"{set_name(task_guess)}.yaml")
    _refuse_existing(place)
    chosen = model or (_INIT if verb == "finetune" else "")
    content = starter_yaml(task_guess, place, chosen, schema_name(verb), source)
    rows = _write(place, content, verb, task_guess)
    command = shlex.join(["road", verb, str(place)])
    if as_json:
        entry = {"output": str(place), "command": command, "kind": task_guess.kind}
        typer.echo(json.dumps(entry | {"rows": rows, "reasons": task_guess.reasons}))
        return
    for line in [*task_guess.reasons, *([f"rows: {rows}"] if rows else [])]:
        typer.echo(f"  {line}")
    typer.echo(f"written: {place}, and {schema_name(verb)} for editors")
    typer.echo(f"next: {command}")


def _refuse_existing(place: Path) -> None:
    if place.exists():
        raise ConfigError(
            f"{place}: exists already; `road init` overwrites nothing\n  fix: --output OTHER.yaml"
        )


def _write(place: Path, content: str, verb: str, task_guess: Guess) -> str:
    """Write the file and its schema if the file loads and all of its rows are valid. Return the
    number of rows of its splits.
    """
    from road_ray.data.features.encode_examples import check_labels
    from road_ray.data.load_split import find_dataset, read_examples, root_of
    from road_ray.system.json_file import write_text_atomic
    from road_ray.verbs import configure

    beside = place.parent / f".{place.name}.partial"  # its paths are relative to this place
    try:
        write_text_atomic(beside, content)
        config: Any = configure(verb, path=beside)
        counts = []
        for name in getattr(config.data, "sets", ()) if task_guess.source.hub is None else ():
            entry, task = find_dataset(name, config.data)
            for split in ("train", "dev"):
                examples = read_examples(entry, split, root_of(name, config.data))
                check_labels(examples, entry, task)
                counts.append(f"{len(examples):,}")
        schema = place.with_name(schema_name(verb))
        if not schema.exists():
            write_text_atomic(schema, schema_text(verb))
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)
    return f"{counts[0]} to train on, {counts[1]} to evaluate on" if counts else ""
