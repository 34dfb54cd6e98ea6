"""The command ``road``: verbs, exit codes and rendering of results. Heavy libraries load with the
verb that needs them.
"""

import io
import json
import logging
import os
import shlex
import signal
import sys
import traceback
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from road_ray.cli.configuration import explain, init, presets, schema
from road_ray.cli.data import data_app
from road_ray.cli.inference import export, label, predict, push, serve
from road_ray.cli.options import (
    AddressOption,
    GpusOption,
    JsonOption,
    PresetOption,
    QuietOption,
    SeedOption,
    VerboseOption,
    WorkersOption,
    argument,
    complete_words,
    sources_of,
)
from road_ray.cli.runs import check, plan, report, runs_app, show_plan
from road_ray.cli.submit import submit, submit_settings
from road_ray.cli.sweep import sweep
from road_ray.config import Config
from road_ray.config.secrets import redact
from road_ray.errors import ConfigError, InterruptedRunError, ResourceError, RoadError
from road_ray.reporting.text_tables import metrics_table
from road_ray.verbs import VERBS, Verb, configure


class _Interruptible(TyperGroup):
    """Group whose commands end with ``InterruptedRunError`` at SIGTERM and Ctrl-C. The training
    loop has a handler of its own, which saves first.
    """

    def invoke(self, ctx: Any) -> Any:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise InterruptedRunError(
                "stopped between steps\n  kept: all that was written\n"
                "  fix: to resume, run the same command"
            ) from None
        finally:
            signal.signal(signal.SIGTERM, before)


app = typer.Typer(
    name="road",
    cls=_Interruptible,
    help="Pre-train, fine-tune and distil encoders with ELECTRA and ROaD, on Ray.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(data_app, name="data")
app.add_typer(runs_app, name="runs")


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="show the version")] = False,
) -> None:
    """Pre-train, fine-tune and distil encoders with ELECTRA and ROaD, on Ray."""
    if version:
        from importlib import metadata

        typer.echo(metadata.version("road-ray"))
        raise typer.Exit


def _register(verb: Verb) -> None:
    name = verb.name

    def command(
        arguments: list[str] | None = None,
        preset: PresetOption = None,
        run_dir: str | None = None,
        workers: WorkersOption = None,
        gpus_per_worker: GpusOption = None,
        address: AddressOption = None,
        seed: SeedOption = None,
        as_json: JsonOption = False,
        quiet: QuietOption = False,
        verbose: VerboseOption = False,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="print the plan and train nothing")
        ] = False,
    ) -> None:
        path, overrides = sources_of(
            arguments or [],
            run_dir=run_dir,
            workers=workers,
            gpus_per_worker=gpus_per_worker,
            address=address,
            seed=seed,
            console="quiet" if quiet or as_json else None,
            word=verb.word,
            file=verb.file,
        )
        config = configure(name, preset=preset, path=path, overrides=overrides)
        if dry_run:
            show_plan(name, config, as_json)
        else:
            _run(name, config, [*([str(path)] if path else []), *overrides], as_json)

    help_of_run_dir = f"directory of the run; default {verb.run_dir or f'runs/{name}'}"
    command.__annotations__ |= {
        "arguments": Annotated[
            list[str] | None,
            argument(
                "[CONFIG.yaml] [key=value]...",
                f"a YAML file, then overrides such as {verb.example}",
                complete_words,
            ),
        ],
        "run_dir": Annotated[str | None, typer.Option(help=help_of_run_dir)],
    }
    command.__doc__ = verb.about[0].upper() + verb.about[1:] + "."
    epilog = (
        f"`road presets` lists presets, `road schema {name}` all keys, `road explain KEY` one. "
        "To resume, run the same command."
    )
    if word := verb.word:
        names = (
            f"`road {name} NAME` is short for {word}=NAME; `road explain {word}` lists the names."
        )
        if verb.file:
            names = f"`road {name} RUN FILE` is short for {word}=RUN {verb.file}=FILE."
        epilog = f"{names} {epilog}"
    app.command(name, epilog=epilog)(command)


for _verb in VERBS.values():
    _register(_verb)
# Further commands, which `road --help` lists below the verbs.
_COMMANDS = (
    *(init, predict, label, export, serve, push, sweep),
    *(report, check, presets, schema, explain),
)
for _command in _COMMANDS:
    app.command()(_command)
app.command(context_settings={"ignore_unknown_options": True})(plan)  # those of its verb
app.command(context_settings=submit_settings)(submit)


def _run(verb: str, config: Config, given: list[str], as_json: bool) -> None:
    if getattr(config, "console", None) == "quiet":
        logging.getLogger("road_ray").setLevel(logging.WARNING)
    run = VERBS[verb].run(config)
    if as_json:
        typer.echo(json.dumps({"directory": str(run.directory), "metrics": dict(run.metrics)}))
        return
    from road_ray.reporting.pages.comparison_page import comparison_text
    from road_ray.reporting.records.comparison_table import TABLE, read_table

    if (run.directory / TABLE).is_file():
        typer.echo(comparison_text(read_table(run.directory)))
    else:
        typer.echo(metrics_table(run.metrics))
    files = {"predictions": "predictions", "teachers": "teachers.json", "report": "report.html"}
    places = {"model": run.hf_dir} | {name: run.directory / file for name, file in files.items()}
    parts = [f"{name}: {place}" for name, place in places.items() if place.exists()]
    typer.echo("   ".join([f"run: {run.directory}", *parts]))
    next_command = VERBS[verb].following(run.directory, given, has_model=run.hf_dir.exists())
    typer.echo(f"next: {next_command}")


def _is_new(shown: set[str], record: logging.LogRecord) -> bool:
    """Filter that shows a warning once, not once for every seed, trial or data set."""
    if record.levelno != logging.WARNING:
        return True
    is_first = (text := record.getMessage()) not in shown
    shown.add(text)
    return is_first


class _Redacting(logging.Formatter):
    """Formatter that masks the secrets of the environment and of addresses."""

    def format(self, record: logging.LogRecord) -> str:
        return str(redact({"text": super().format(record)})["text"])


def main() -> None:
    """Entry point of ``road``. A user error prints a message and sets the exit code, without a
    traceback.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names that are no UTF-8
    logging.addLevelName(logging.INFO, "")
    logging.addLevelName(logging.WARNING, "warning: ")
    logging.addLevelName(logging.ERROR, "error: ")
    logging.basicConfig(level=logging.WARNING)  # to standard error
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_Redacting("%(levelname)s%(message)s"))
        handler.addFilter(partial(_is_new, set()))
    logging.getLogger("road_ray").setLevel(logging.INFO)
    logging.getLogger("huggingface_hub").propagate = False  # it has a handler of its own
    try:
        try:
            app(prog_name="road")
        except OSError as error:
            where = str(error.filename or "standard output")[:200]
            text = f"{where}: {error.strerror or error}\n  fix: remove the cause"
            raise ResourceError(text) from error
        except RuntimeError as error:
            if "home directory" not in str(error):
                raise
            raise ConfigError("a path begins with ~NAME, a user without a home here") from error
    except RoadError as error:
        if logging.getLogger("road_ray").isEnabledFor(logging.DEBUG):  # by -v
            typer.echo(redact({"text": traceback.format_exc()})["text"], err=True)
        text = redact({"text": str(error)})["text"]  # a refused address may hold a key
        typer.echo(text if text.startswith("error[") else f"error[{error.kind}] {text}", err=True)
        if isinstance(error, InterruptedRunError):
            typer.echo(f"  command: {shlex.join(['road', *sys.argv[1:]])}", err=True)
        sys.exit(error.exit_code)
