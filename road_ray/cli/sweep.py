"""``road sweep``: runs the trials of a search space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from road_ray.cli.options import (
    JsonOption,
    QuietOption,
    VerboseOption,
    argument,
    complete_words,
    sources_of,
    tell,
)
from road_ray.reporting.text_tables import aligned, duration
from road_ray.verbs import VERBS

if TYPE_CHECKING:
    from road_ray.recipes.sweep.config import SweepConfig
    from road_ray.recipes.sweep.sweep import Sweep


def sweep(
    arguments: Annotated[
        list[str] | None,
        argument("FILE|NAME [key=value]...", "search space, then overrides", complete_words),
    ] = None,
    run_dir: Annotated[str | None, typer.Option(help="directory of the sweep")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="number of trials")] = None,
    address: Annotated[str | None, typer.Option(help="address of a running Ray cluster")] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="print the plan of one trial and of all, and start none"),
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Search the values of configuration keys (Ray Tune, Optuna).

    max_concurrent=N limits the trials that run at once, retry_failed=true tries failed trials
    again; `road schema sweep` lists all keys. To resume, run the same command."""
    path, overrides = sources_of(
        arguments or [],
        run_dir=run_dir,
        trials=trials,
        address=address,
        console="quiet" if quiet or as_json else None,
    )
    from road_ray.recipes.sweep.config import shipped
    from road_ray.recipes.sweep.trials import load_sweep

    if path is None:
        raise typer.BadParameter(f"name a YAML file or one of: {', '.join(shipped())}")
    config = load_sweep(str(path), overrides)  # before torch and Ray are imported
    from road_ray.recipes.sweep.sweep import run

    if dry_run:
        _show_plan(config, as_json)
        return
    done = run(config)
    best, every = ([asdict(trial) for trial in trials] for trials in (done.best, done.trials))
    summary = {"directory": str(done.directory), "best": best, "trials": every}
    tell(summary, as_json, *_result(done, config))
    done.check()


def _result(done: Sweep, config: SweepConfig) -> Iterator[str]:
    """Yield the ten best trials of one metric, the best of them, and whether they differ."""
    from road_ray.recipes.sweep.trials import model_of
    from road_ray.reporting.records.sweep_record import read_sweep

    metric, larger = config.metric[0], config.mode[0] == "max"
    ended = [trial for trial in done.trials if trial.state == "complete"]
    if len(config.metric) == 1 and len(ended) > 1:
        ranked = sorted(ended, key=lambda trial: trial.values[0], reverse=larger)[:10]
        yield aligned(
            [
                {"trial": trial.number, metric: trial.values[0]}
                | ({"+-": (*trial.deviation, None)[0]} if config.seeds > 1 else {})
                | {key: trial.params.get(key) for key in config.space}
                for trial in ranked
            ]
        )
    for trial in done.best:
        values = ", ".join(f"{m} {v:.5g}" for m, v in zip(config.metric, trial.values, strict=True))
        drawn = " ".join(f"{key}={value}" for key, value in trial.params.items())
        yield f"best: trial {trial.number}: {values}  {drawn}"
        yield f"  model: {model_of(done.directory, trial, config)}"
    if tied := read_sweep(done.directory).tie:
        yield tied
    page, study = done.directory / "report.html", done.directory / "study.journal"
    yield f"sweep: {done.directory}   report: {page}   optuna-dashboard {study}"
    for trial in done.best[:1]:
        place, verb = model_of(done.directory, trial, config), VERBS[config.stages[-1].verb]
        yield f"next: {verb.following(place, has_model=(place / 'hf').exists())}"


def _show_plan(config: SweepConfig, as_json: bool) -> None:
    """Print the plan of a trial's first run, without sampled values, and that of all trials."""
    from road_ray.cli.runs import format_plan
    from road_ray.recipes.plan import plan
    from road_ray.recipes.sweep.sweep import check_sources
    from road_ray.recipes.sweep.trials import base_config

    check_sources(config)
    costs = plan(config.verb, base_config(config), VERBS[config.verb].run)
    runs, side = config.most_trials * config.seeds, config.max_concurrent or 1
    total = {"runs": runs, "hours": costs["hours"] * config.seeds * -(-config.most_trials // side)}
    after = f", then {config.then.verb}" if config.then else ""
    then = f", without the runs of {config.then.verb} that follow" if config.then else ""
    early = "" if config.scheduler == "none" else f"; less, as {config.scheduler} stops some early"
    tell(
        costs | {"sweep": total},
        as_json,
        f"{config.name}: {config.most_trials} trials of {config.seeds} x {config.verb}{after}, "
        f"which draw {', '.join(config.space)}; the first run of one, before values are drawn:",
        format_plan(costs),
        f"all trials  {runs:,} such runs{then}: {duration(3600 * total['hours'])} with {side} at "
        f"a time{early}",
    )
