"""Experiment trackers, which receive a copy of the journal, the source of truth."""

import math
import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from road_ray.config import flatten
from road_ray.config.secrets import redact
from road_ray.errors import require
from road_ray.system.files import write_atomic
from road_ray.system.own_names import named_object, unfit

START_TIMEOUT_SECONDS = 30.0  # for a server to answer before the run starts without it
_LONGEST_VALUE = 500  # of a parameter, which MLflow limits

RowCallback = Callable[[int, int | None, Mapping[str, float]], None]
"""``on_row(step, total_steps, row)``: called with every row of a journal as it is written."""


@dataclass(frozen=True)
class Tracker:
    """Destination of rows besides the journal, which catches errors of it and of its start."""

    log: Callable[[int, Mapping[str, float]], object]
    """``log(step, metrics)`` sends one row."""
    close: Callable[[bool], object] = lambda failed: None
    """``close(failed)`` sends what is pending and ends the run."""


def wandb_tracker(
    project: str,
    run_name: str,
    config: Mapping[str, object],
    run_dir: Path,
    group: str | None = None,
) -> Tracker:
    """Return a tracker for Weights & Biases. A run directory keeps its id; secrets are masked.

    Raises ``ConfigError`` if wandb is not installed, and wandb's errors if it cannot be reached.
    """
    require("tracker wandb", "wandb", "wandb")
    import wandb

    run = wandb.init(
        project=project,
        name=run_name,
        group=group,
        id=_stored_id(run_dir / "wandb", lambda: uuid.uuid4().hex),
        resume="allow",
        dir=str(run_dir),
        config=redact(config),
        mode=None if "WANDB_MODE" in os.environ else "offline",
        # Without these settings, wandb records sys.argv, the git remote and all output (measured).
        settings=wandb.Settings(
            x_disable_meta=True,
            disable_git=True,
            init_timeout=START_TIMEOUT_SECONDS,
            save_code=False,
            console="off",
            silent=True,
        ),
    )
    run.define_metric("*", step_metric="step")  # a resumed run may go back a few steps
    return Tracker(
        log=lambda step, metrics: run.log({**metrics, "step": step}),
        close=lambda failed: run.finish(exit_code=int(failed)),
    )


def tensorboard_tracker(run_dir: Path) -> Tracker:
    """Return a tracker that writes event files to ``tensorboard/`` of the run directory. A resumed
    run hides what was written of the steps that it repeats. The writer comes with Ray Tune.
    """
    from tensorboardX import SummaryWriter

    # File names have seconds only: two starts within one second would write the same file.
    names = {"logdir": str(run_dir / "tensorboard"), "filename_suffix": f".{time.time_ns()}"}
    writers: list[SummaryWriter] = []

    def log(step: int, metrics: Mapping[str, float]) -> None:
        if not writers:
            writers.append(SummaryWriter(**names, flush_secs=1, purge_step=step))
        for name, value in metrics.items():
            writers[0].add_scalar(name, value, step)

    return Tracker(log, lambda failed: [writer.close() for writer in writers])


def mlflow_tracker(
    uri: str, experiment: str, run_name: str, config: Mapping[str, Any], run_dir: Path
) -> Tracker:
    """Return a tracker for MLflow at a server or database (``http://...``,
    ``sqlite:///mlflow.db``). A run directory keeps its run id; secrets are masked.

    Raises ``ConfigError`` if mlflow is not installed, and its errors if it cannot be reached.
    """
    require("tracker mlflow", "mlflow", "mlflow")
    from mlflow.entities import Metric, Param
    from mlflow.tracking import MlflowClient

    for name, most in {"TIMEOUT": START_TIMEOUT_SECONDS, "MAX_RETRIES": 1}.items():
        os.environ.setdefault(f"MLFLOW_HTTP_REQUEST_{name}", f"{most:.0f}")
    client = MlflowClient(tracking_uri=uri)

    def create() -> str:
        existing = client.get_experiment_by_name(experiment)
        number = existing.experiment_id if existing else client.create_experiment(experiment)
        run_id: str = client.create_run(number, run_name=run_name).info.run_id
        values = {name: str(value) for name, value in flatten(redact(config)).items()}
        params = [Param(name, value[:_LONGEST_VALUE]) for name, value in values.items()]
        client.log_batch(run_id, params=params)
        return run_id

    run_id = _stored_id(run_dir / "mlflow", create)
    client.update_run(run_id, status="RUNNING")
    names = client.get_run(run_id).data.metrics  # of an earlier start, whose last steps come again
    logged = {(name, m.step) for name in names for m in client.get_metric_history(run_id, name)}

    def log(step: int, metrics: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        finite = {n: v for n, v in metrics.items() if v is not None and math.isfinite(v)}
        new = [(name, value) for name, value in finite.items() if (name, step) not in logged]
        client.log_batch(run_id, metrics=[Metric(name, value, now, step) for name, value in new])

    return Tracker(
        log, close=lambda failed: client.set_terminated(run_id, "FAILED" if failed else "FINISHED")
    )


_CONTRACT = (
    "a function of run directory, name and configuration that returns a "
    "road_ray.training.monitoring.trackers.Tracker\n"
    "  fix: correct it until road_ray.testing.check_tracker passes"
)


def own_tracker(
    name: str, run_dir: Path, run_name: str, config: Mapping[str, object]
) -> Callable[[], Tracker]:
    """Return a function that starts the user's own tracker ``package.module:name``; secrets of the
    configuration are masked. Raises ``ConfigError`` at once if there is none of that name; the
    returned function does so if it returns something else.
    """
    start = named_object("tracking.custom", name, {}, _CONTRACT)

    def started() -> Tracker:
        tracker = start(run_dir, run_name, redact(config))
        if not isinstance(tracker, Tracker):
            raise unfit("tracking.custom", name, f"returns {tracker!r}", _CONTRACT)
        return tracker

    return started


def _stored_id(directory: Path, create: Callable[[], str]) -> str:
    """Return the id of this run directory, which is created at its first start."""
    path = directory / "run_id.txt"
    if not path.is_file():
        write_atomic(path, f"{create()}\n")
    return path.read_text(encoding="ascii").strip()
