"""``road plan`` and ``--dry-run``: steps, memory, disk and time before a run. ``road runs``, ``road
report`` and ``road check``: runs, their pages and the environment.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from road_ray.cli.options import JsonOption, argument, complete_words, show_list, tell
from road_ray.config.schema import format_value
from road_ray.errors import ConfigError
from road_ray.reporting.text_tables import aligned, duration, is_principal
from road_ray.verbs import VERBS

if TYPE_CHECKING:
    from road_ray.reporting.records.run_record import RunRecord


runs_app = typer.Typer(help="List, show or compare runs.", no_args_is_help=True)
_Run = Annotated[Path, argument("RUN", "run directory")]


@runs_app.command("list")
def list_runs(
    folder: Annotated[Path, typer.Argument(help="folder of runs")] = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """List the runs in a folder with their progress."""
    from road_ray.reporting.records.run_record import read_run, runs_below

    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such directory\n  fix: name the folder of the runs")
    rows = [_row(read_run(path), folder) for path in runs_below(folder, deepest=6)]
    show_list(rows, as_json)


@runs_app.command("show")
def show(directory: _Run, as_json: JsonOption = False) -> None:
    """Show a run: verb, state, metrics, events and configuration."""
    run = _read(directory)
    if as_json:
        summary = _row(run, directory.parent) | {"metrics": dict(run.metrics)}
        typer.echo(json.dumps(summary | {"events": run.events, "config": run.settings}))
        return

    metrics = [{"metric": name, "value": value} for name, value in run.metrics.items()]
    settings = [{"key": key, "value": format_value(value)} for key, value in run.settings.items()]
    parts = [aligned([_row(run, directory.parent)]), aligned(metrics), aligned(settings)]
    events = [f"{event.get('time', '')}  {event.get('kind', '')}" for event in run.events]
    typer.echo("\n\n".join([*parts[:2], *(["\n".join(events)] if events else []), parts[2]]))
    for problem in run.problems:
        typer.echo(f"warning: {problem}", err=True)


@runs_app.command("diff")
def diff(left: _Run, right: _Run, as_json: JsonOption = False) -> None:
    """Show the keys and metrics in which two runs differ: what, its name, the value of each run."""
    first, second = _read(left), _read(right)
    alike = left.name == right.name
    columns = (str(left), str(right)) if alike else (left.name, right.name)
    rows = [
        {"what": group, "key": key} | {columns[0]: ours.get(key), columns[1]: theirs.get(key)}
        for group, ours, theirs in (
            ("key", first.settings, second.settings),
            ("metric", first.metrics, second.metrics),
        )
        for key in sorted({*ours, *theirs})
        if ours.get(key) != theirs.get(key)
    ]
    show_list(rows, as_json)


def _read(directory: Path) -> RunRecord:
    from road_ray.reporting.records.run_record import is_run, read_run

    if not is_run(directory):
        raise ConfigError(
            f"{directory}: is not a run\n  fix: `road runs list {directory.parent}` lists the runs"
        )
    return read_run(directory)


def _row(run: RunRecord, folder: Path) -> dict[str, Any]:
    place = run.directory
    metrics = [name for name, value in run.metrics.items() if isinstance(value, int | float)]
    metric = next(filter(is_principal, metrics), next(iter(metrics), None))
    return {
        "name": str(place.relative_to(folder)) if place.is_relative_to(folder) else str(place),
        "verb": run.verb,
        "state": "finished" if run.finished else "begun",
        "step": run.steps,
        "seed": run.settings.get("seed"),
        "metric": metric or "",
        "value": run.metrics[metric] if metric else None,
        "faults": len(run.faults),
        "limits": "; ".join(run.limits),
    }


def report(
    paths: Annotated[
        list[Path], argument("RUN|SWEEP|FOLDER...", "run, sweep or folder; several are compared")
    ],
    output: Annotated[
        Path | None, typer.Option(help="file of the page, or directory of figures")
    ] = None,
    kind: Annotated[
        Literal["html", "svg", "png", "pdf"],
        typer.Option("--format", help="html: a page; svg, png, pdf: figures for a paper"),
    ] = "html",
    as_json: JsonOption = False,
) -> None:
    """Write an HTML page for a run, a sweep or a folder of runs."""
    from road_ray.reporting.report import report as write

    written = [str(path) for path in write(paths, output, kind)]
    tell(written, as_json, *written)


def check(
    address: Annotated[str | None, typer.Option(help="address of a Ray cluster to check")] = None,
    root: Annotated[str | None, typer.Option(help="data root to check")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the environment: versions, devices, disk, data, cluster."""
    from road_ray.distributed.environment_check import findings

    rows: list[dict[str, Any]] = [*findings(address, root)]
    show_list(rows, as_json)
    raise typer.Exit(0 if all(row["state"] == "ok" for row in rows) else 4)


_Planned = Literal["pretrain", "multitask", "finetune", "teachers", "distill", "reproduce"]


def plan(
    ctx: typer.Context,
    verb: Annotated[_Planned, typer.Argument()],
    arguments: Annotated[
        list[str] | None,
        argument("[CONFIG.yaml] [key=value]...", "a YAML file, overrides, options", complete_words),
    ] = None,
) -> None:
    """Estimate steps, memory, disk and time of a command, as its --dry-run does.

    Measures three steps; reports an infeasible configuration within seconds.
    """
    parent: Any = ctx.parent
    command = parent.command.get_command(ctx, verb)
    with command.make_context(verb, [*(arguments or []), "--dry-run"], parent=parent) as inner:
        command.invoke(inner)


def show_plan(verb: str, config: Any, as_json: bool) -> None:
    """Plan a configuration and print it."""
    from road_ray.recipes.plan import plan as planned

    if verb == "reproduce":
        from road_ray.experiment.estimate import estimate

        found = estimate(config)
        text = format_comparison(found)
    elif verb not in get_args(_Planned):
        allowed = ", ".join(get_args(_Planned))
        raise ConfigError(f"road {verb} has no plan\n  allowed: {allowed}\n  fix: no --dry-run")
    else:
        found = planned(verb, config, VERBS[verb].run)
        text = format_plan(found)
    words = [word for word in sys.argv[1:] if word != "--dry-run"]
    tell(found, as_json, text, f"next: {shlex.join(['road', *words[words[:1] == ['plan'] :]])}")


def format_comparison(estimate: Mapping[str, Any]) -> str:
    """Return the estimate of a comparison as text."""
    time, side = duration(3600 * estimate["hours"]), estimate["max_concurrent"] or 1
    rows = [
        {"arm": row["arm"], "seed": row["seed"], "steps": f"{row['steps']:,}"}
        | {"time": "finished" if row["finished"] else duration(row["seconds"])}
        for row in estimate["rows"]
    ]
    return (
        f"{aligned(rows)}\n\n{estimate['runs']} of these are left to run: about {time} "
        f"with {side} at a time, by a few steps timed on this machine"
    )


def format_plan(plan: Mapping[str, Any]) -> str:
    """Return the plan as a table."""
    from rich.filesize import decimal as size

    disk, memory = plan["disk_bytes"], dict(plan["memory_bytes"])
    available = memory.pop("available")
    need = ", ".join(f"{name} {size(count)}" for name, count in memory.items())
    low, high = plan["measured_step_range"]
    every = 3600 * plan["hours"] / plan["measured_step_seconds"]
    counts = ("runs", "steps", "rows", "tokens", "parameters")
    found = {name: f"{plan[name]:,}" for name in counts} | {
        "memory of a worker": f"{size(sum(memory.values()))} ({need})",
        "memory here": f"{size(available)} for each worker" if available else "no GPU",
        "disk of a checkpoint": size(disk["checkpoint"]),
        "disk at most": f"{size(disk['at_most'])}; {size(disk['free'])} free",
        "a step": f"{low:.3f} to {high:.3f} s, as measured here on three steps; "
        f"{plan['measured_data_seconds']:.3f} s of it waiting for data and teachers",
        "all steps": f"{duration(every * low)} to {duration(every * high)}",
    }
    if plan["rows_per_epoch"]:
        found["epochs"] = f"{plan['rows'] / plan['rows_per_epoch']:,.3g}"
    return aligned([{"what": name, "value": value} for name, value in found.items()])
