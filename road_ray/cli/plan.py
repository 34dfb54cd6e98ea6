"""``road plan`` and ``--dry-run``: steps, memory, disk and time before a run."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from road_ray.cli.completion import complete_words
from road_ray.errors import ConfigError, nearest

if TYPE_CHECKING:
    from road_ray.config import Config
    from road_ray.experiment.config import ReproduceConfig

PLANNED = ("pretrain", "multitask", "finetune", "teachers", "distill", "reproduce")
_BUSY = 1.5  # the slowest of three equal steps over the fastest


def plan(
    ctx: typer.Context,
    verb: Annotated[str, typer.Argument(help=", ".join(PLANNED))],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONFIG.yaml] [key=value]...",
            help="a YAML file, overrides and options of the verb",
            autocompletion=complete_words,
        ),
    ] = None,
) -> None:
    """Estimate steps, memory, disk and time of a command, as its --dry-run does.

    Measures three steps; reports an infeasible configuration within seconds.
    """
    if verb not in PLANNED:
        words = [verb, *(arguments or [])] if Path(verb).suffix else arguments or []
        near = nearest(verb, PLANNED) or "finetune"
        raise ConfigError(
            f"road plan {verb}: no verb that has a plan\n  allowed: {', '.join(PLANNED)}\n"
            f"  fix: {shlex.join(['road', 'plan', near, *words])}"
        )
    parent: Any = ctx.parent
    command = parent.command.get_command(ctx, verb)
    with command.make_context(verb, [*(arguments or []), "--dry-run"], parent=parent) as inner:
        command.invoke(inner)


def show_plan(verb: str, config: Config, as_json: bool) -> None:
    """Plan a configuration and print it."""
    from road_ray.recipes.plan import plan as planned
    from road_ray.verbs import VERBS

    if verb == "reproduce":
        from road_ray.experiment.estimate import estimate

        found = estimate(cast("ReproduceConfig", config))
        typer.echo(json.dumps(found) if as_json else format_comparison(found))
    else:
        costs = planned(verb, config, VERBS[verb].run)
        typer.echo(json.dumps(costs) if as_json else format_plan(costs))
    if not as_json:
        words = [word for word in sys.argv[1:] if word != "--dry-run"]
        typer.echo(f"next: {shlex.join(['road', *words[words[:1] == ['plan'] :]])}")


def format_comparison(estimate: Mapping[str, Any]) -> str:
    """Return the estimate of a comparison as text."""
    from road_ray.reporting.text_tables import aligned

    rows = [
        {
            "arm": row["arm"],
            "seed": "-" if row["seed"] is None else str(row["seed"]),
            "steps": f"{row['steps']:,}",
            "tokens": f"{row['tokens']:,}",
            "minutes": "finished" if row["finished"] else f"{row['seconds'] / 60:.1f}",
        }
        for row in estimate["rows"]
    ]
    side = estimate["max_concurrent"] or 1
    total = (
        f"{estimate['runs']} of these are left to run: {estimate['core_hours']:.4g} core-hours, "
        f"about {duration(estimate['hours'])} with {side} at a time, by a few steps timed on this "
        "machine"
    )
    return f"{aligned(rows)}\n\n{total}"


def format_plan(plan: Mapping[str, Any]) -> str:
    """Return the plan as text."""
    memory, disk = plan["memory_bytes"], plan["disk_bytes"]
    parts = ("parameters", "gradients", "optimizer", "activations")
    used = ", ".join(f"{name} {_size(memory[name])}" for name in parts)
    need = _size(sum(memory[name] for name in parts))
    room = f"this machine has {_size(memory['available'])} for each"
    room = room if memory["available"] else "this machine has no GPU"
    runs = f"{plan['runs']} runs of " if plan["runs"] > 1 else ""
    lines = (
        f"steps       {runs}{plan['steps']:,}: {plan['rows']:,} rows{_epochs(plan)}, "
        f"{plan['tokens']:,} tokens",
        *_phases(plan["phases"]),
        f"model       {plan['parameters']:,} parameters",
        f"memory      {need} a worker needs ({used}); {room}",
        f"disk        {_size(disk['checkpoint'])} a checkpoint, {_size(disk['at_most'])} at most; "
        f"{_size(disk['free'])} free",
        f"time        {_time(plan)}",
    )
    return "\n".join(lines)


def _epochs(plan: Mapping[str, Any]) -> str:
    """Return how often a training sees each row of its data, if they are one data set."""
    if not plan["rows_per_epoch"]:
        return ""
    return f" ({plan['rows'] / plan['rows_per_epoch']:,.3g} epochs of {plan['rows_per_epoch']:,})"


def _time(plan: Mapping[str, Any]) -> str:
    """Return the seconds of a step and the time of all; ranges where the measured steps differ."""
    low, high = plan["measured_step_range"]
    mean, hours = plan["measured_step_seconds"], plan["hours"]
    waiting = f"{plan['measured_data_seconds']:.3f} of it waiting for data and teachers"
    if high <= _BUSY * low:
        return (
            f"{mean:.3f} s a step measured here on three steps, {waiting}; {duration(hours)} for "
            "all"
        )
    return (
        f"{low:.3f} to {high:.3f} s a step measured here on three steps, {waiting}; "
        f"{duration(hours * low / mean)} to {duration(hours * high / mean)} for all, as this "
        "machine is busy"
    )


def _phases(phases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a pre-training with several phases; none for one."""
    parts = [
        f"{phase['steps']:,} steps of {phase['batch_size']:,} rows of "
        f"{phase['max_length_tokens']} tokens, {phase['measured_step_seconds']:.3f} s each"
        for phase in phases
    ]
    return ["phases      " + "; then ".join(parts)] if len(parts) > 1 else []


def duration(hours: float) -> str:
    """Return hours as text, in seconds or minutes where they are few."""
    if hours < 1 / 60:
        return f"{3600 * hours:.1f} s"
    return f"{60 * hours:.1f} min" if hours < 1 else f"{hours:.2f} h"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"
