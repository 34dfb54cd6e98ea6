"""``road plan`` and ``--dry-run``: steps, memory, disk and time before a run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

from road_ray.cli.options import argument, complete_words, tell
from road_ray.config import Config
from road_ray.errors import ConfigError
from road_ray.reporting.text_tables import aligned, duration
from road_ray.verbs import VERBS

if TYPE_CHECKING:
    from road_ray.experiment.config import ReproduceConfig

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


def show_plan(verb: str, config: Config, as_json: bool) -> None:
    """Plan a configuration and print it."""
    from road_ray.recipes.plan import plan as planned

    if verb == "reproduce":
        from road_ray.experiment.estimate import estimate

        found = estimate(cast("ReproduceConfig", config))
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
    return (
        f"{aligned(estimate['rows'])}\n\n{estimate['runs']} of these are left to run: about {time} "
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
    found: dict[str, object] = {
        "runs": plan["runs"],
        "steps": f"{plan['steps']:,}",
        "rows": f"{plan['rows']:,}",
        "tokens": f"{plan['tokens']:,}",
        "parameters": f"{plan['parameters']:,}",
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
    for number, phase in enumerate(plan["phases"] if len(plan["phases"]) > 1 else ()):
        found[f"phase {number + 1}"] = (
            f"{phase['steps']:,} steps of {phase['batch_size']:,} rows of "
            f"{phase['max_length_tokens']} tokens, {phase['measured_step_seconds']:.3f} s each"
        )
    return aligned([{"what": name, "value": value} for name, value in found.items()])
