"""The command ``road``: verbs, exit codes, rendering; nothing else. Heavy libraries load with the
verb that needs them.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from road_ray.errors import InterruptedRunError, RoadError
from road_ray.verbs import VERBS

app = typer.Typer(
    name="road",
    help="ROaD-ELECTRA on Ray: pre-train, multi-task, distil from weighted teachers, evaluate.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(help="Look at data, train a tokenizer, build corpora.", no_args_is_help=True)
app.add_typer(data_app, name="data")

_Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CONFIG.yaml] [key=value]...", help="a YAML file, then overrides"),
]
_PresetOption = Annotated[str | None, typer.Option("--preset", help="start from a named preset")]
_JsonOption = Annotated[bool, typer.Option("--json", help="print JSON")]


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("road-ray"))
        raise typer.Exit


_VersionOption = Annotated[
    bool, typer.Option("--version", callback=_say_version, is_eager=True, help="show the version")
]


@app.callback()
def _root(version: _VersionOption = False) -> None:
    """ROaD-ELECTRA on Ray: pre-train, multi-task, distil from weighted teachers, evaluate."""


def _register(name: str, about: str) -> None:
    def command(
        arguments: _Arguments = None,
        preset: _PresetOption = None,
        run_dir: Annotated[Path | None, typer.Option(help="where the run is kept")] = None,
        workers: Annotated[
            int | None, typer.Option(help="Ray Train workers; 0: this process")
        ] = None,
        gpus_per_worker: Annotated[float | None, typer.Option(help="GPUs of each worker")] = None,
        address: Annotated[str | None, typer.Option(help="a running Ray cluster")] = None,
        seed: Annotated[int | None, typer.Option(help="of weights, data order and masks")] = None,
        as_json: _JsonOption = False,
        quiet: Annotated[bool, typer.Option("-q", help="no progress")] = False,
    ) -> None:
        path, overrides = _split(arguments or [])
        flags = {
            "run_dir": run_dir,
            "workers": workers,
            "gpus_per_worker": gpus_per_worker,
            "address": address,
            "seed": seed,
            "console": "quiet" if quiet or as_json else None,
        }
        overrides += [f"{key}={value}" for key, value in flags.items() if value is not None]
        _run(name, preset, path, overrides, as_json)

    command.__doc__ = about[0].upper() + about[1:] + "."
    app.command(name)(command)


for _verb in VERBS.values():
    _register(_verb.name, _verb.about)


def _split(arguments: list[str]) -> tuple[Path | None, list[str]]:
    """The YAML file, if the first argument is one, and the overrides."""
    if arguments and "=" not in arguments[0]:
        return Path(arguments[0]), arguments[1:]
    return None, list(arguments)


def _run(
    verb: str, preset: str | None, path: Path | None, overrides: list[str], as_json: bool
) -> None:
    from road_ray.verbs import configure

    config = configure(verb, preset=preset, path=path, overrides=overrides)
    if getattr(config, "console", None) == "quiet":
        logging.getLogger("road_ray").setLevel(logging.WARNING)
    run = _uninterrupted(VERBS[verb].run, config)
    if as_json:
        typer.echo(json.dumps({"directory": str(run.directory), "metrics": dict(run.metrics)}))
        return
    from road_ray.reporting.tables import figures, story

    table = run.directory / "table.json"
    if table.is_file():
        typer.echo(story(json.loads(table.read_text(encoding="utf-8"))))
    else:
        typer.echo(figures(run.metrics))
    made = {"model": run.hf_dir, "predictions": run.directory / "predictions"}
    made["report"] = run.directory / "report.html"
    parts = [f"{what}: {place}" for what, place in made.items() if place.exists()]
    typer.echo("   ".join([f"run: {run.directory}", *parts]))


def _uninterrupted(recipe: Callable[..., Any], config: Any) -> Any:
    """What the recipe gives. SIGTERM and Ctrl-C outside the loop, which has its own way to stop,
    end it too.
    """

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        return recipe(config)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"stopped between steps\n  kept: what {config.run_dir} holds by now\n"
            "  go on: run the same command again"
        ) from None
    finally:
        signal.signal(signal.SIGTERM, before)


@app.command()
def presets(
    name: Annotated[str | None, typer.Argument(help="show this one as YAML")] = None,
    as_json: _JsonOption = False,
) -> None:
    """List the presets, or show one as YAML."""
    from road_ray.config import to_yaml
    from road_ray.presets import PRESETS, named

    if name is not None:
        chosen = named(name)
        typer.echo(f"# road {chosen.verb}: {chosen.about}\n{to_yaml(chosen.make())}", nl=False)
        return
    rows = [{"name": p.name, "verb": p.verb, "about": p.about} for p in PRESETS.values()]
    _list(rows, as_json)


@app.command()
def check(
    address: Annotated[str | None, typer.Option(help="a Ray cluster to reach")] = None,
    root: Annotated[str | None, typer.Option(help="a data root to look at")] = None,
    as_json: _JsonOption = False,
) -> None:
    """Look at the environment: versions, devices, disk, data, cluster."""
    from road_ray.reporting.environment import findings

    rows, good = findings(address, root)
    _list(rows, as_json)
    raise typer.Exit(0 if good else 4)


@app.command()
def schema(verb: Annotated[str, typer.Argument(help="pretrain, finetune, ...")]) -> None:
    """The JSON schema of a verb's configuration, for editors."""
    from road_ray.config import json_schema

    if verb not in VERBS:
        raise typer.BadParameter(f"{verb!r} has no configuration; known: {', '.join(VERBS)}")
    typer.echo(json.dumps(json_schema(VERBS[verb].config), indent=1))


@data_app.command("list")
def data_list(as_json: _JsonOption = False) -> None:
    """The catalogue of data sets."""
    from road_ray.data.catalog import DATASETS

    rows = [
        {
            "name": d.name,
            "task": d.task,
            "layout": d.layout,
            "folder": d.folder,
            "metrics": ", ".join(d.metrics),
        }
        for d in DATASETS.values()
    ]
    _list(rows, as_json)


@data_app.command("peek")
def data_peek(
    dataset: Annotated[str, typer.Argument(help="a name of the catalogue")],
    tokenizer: Annotated[str, typer.Option(help="vocab.txt or model directory")],
    root: Annotated[str, typer.Option(help="data root, or miniature")] = "miniature",
    split: Annotated[str, typer.Option()] = "train",
    rows: Annotated[int, typer.Option(min=1)] = 3,
) -> None:
    """Rows as the model sees them, with their gold."""
    from road_ray.data.peek import shown

    typer.echo(shown(dataset, split, root, _model_of(tokenizer), rows))


@data_app.command("tokenizer")
def data_tokenizer(
    corpus: Annotated[Path, typer.Argument(help="file or directory of text")],
    out: Annotated[Path, typer.Argument(help="directory for the tokenizer")],
    vocab_size: Annotated[int, typer.Option(min=8)] = 8192,
) -> None:
    """Train a WordPiece tokenizer on a corpus."""
    from road_ray.data.documents import read_corpus
    from road_ray.data.tokenizer import train_wordpiece

    trained = train_wordpiece(read_corpus(corpus), vocab_size=vocab_size)
    trained.save_pretrained(out)
    typer.echo(f"{len(trained)} entries: {out}")


@data_app.command("corpus")
def data_corpus(
    corpus: Annotated[Path, typer.Argument(help="file or directory of text")],
    out: Annotated[Path, typer.Argument(help="directory for the shards")],
    tokenizer: Annotated[str, typer.Option(help="vocab.txt or model directory")],
    max_length_tokens: Annotated[int, typer.Option(min=8)] = 128,
) -> None:
    """Build two-segment shards from raw text."""
    from road_ray.data.corpus import build_corpus
    from road_ray.data.documents import read_corpus
    from road_ray.data.tokenizer import load_tokenizer

    built = build_corpus(
        read_corpus(corpus),
        out,
        load_tokenizer(_model_of(tokenizer)),
        max_length_tokens=max_length_tokens,
        source=corpus.name,
    )
    typer.echo(f"{built.manifest['rows']:,} rows, {built.manifest['tokens']:,} tokens: {out}")


def _model_of(name: str) -> str:
    """``hf/`` of a run directory; anything else as it is."""
    return str(Path(name) / "hf") if (Path(name) / "hf").is_dir() else name


def _list(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(rows))
        return
    from road_ray.reporting.tables import aligned

    typer.echo(aligned(rows))


def _say_what_is_logged() -> None:
    """Our notes as they are, warnings of anybody with that word before them; to standard error."""
    logging.addLevelName(logging.INFO, "")
    logging.addLevelName(logging.WARNING, "warning: ")
    logging.addLevelName(logging.ERROR, "error: ")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s%(message)s")
    logging.getLogger("road_ray").setLevel(logging.INFO)


def main() -> None:
    """Entry point of ``road``: a mistake of the user is a message and an exit code, never a
    traceback.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    _say_what_is_logged()
    try:
        app(prog_name="road")
    except RoadError as error:
        text = str(error)
        typer.echo(text if text.startswith("error[") else f"error[{error.kind}] {text}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
