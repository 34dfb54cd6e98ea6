"""Experiment trackers, which receive a copy of the journal, the source of truth."""

from __future__ import annotations

import logging
import math
import os
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from road_ray.config import flatten
from road_ray.errors import ConfigError
from road_ray.training.monitoring.redaction import redact

START_TIMEOUT_SECONDS = 30.0  # for a server to answer before the run starts without it
_LONGEST_VALUE = 500  # of a parameter, which MLflow limits
_log = logging.getLogger(__name__)


class Tracker(Protocol):
    """Protocol of destinations of rows besides the journal, which catches their errors."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send one row."""

    def close(self, *, failed: bool) -> None:
        """Send what is pending and end the run; ``failed`` when it ended with an error."""


RowCallback = Callable[[int, int | None, Mapping[str, float]], None]
"""``on_row(step, total_steps, row)``: called with every row of a journal as it is written."""


class CallbackTracker:
    """Tracker that passes rows to a function."""

    def __init__(self, on_row: RowCallback, total_steps: int | None) -> None:
        self._on_row, self._total = on_row, total_steps

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._on_row(step, self._total, metrics)

    def close(self, *, failed: bool) -> None:
        pass


class _Wandb:
    def __init__(self, run: Any) -> None:
        self._run = run
        run.define_metric("*", step_metric="step")  # a resumed run may go back a few steps

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({**metrics, "step": step})

    def close(self, *, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


class _Unreachable:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        raise self._error

    def close(self, *, failed: bool) -> None:
        pass


def wandb_tracker(
    project: str,
    run_name: str,
    config: Mapping[str, object],
    run_dir: Path,
    mode: Literal["online", "offline"] = "offline",
    group: str | None = None,
) -> Tracker:
    """Return a tracker for Weights & Biases. A run directory keeps its id; secrets are masked.

    If it cannot be reached, the tracker fails at its first row, and the journal drops it. Raises
    ``ConfigError`` if wandb is not installed.
    """
    try:
        import wandb
    except ImportError as error:
        raise ConfigError(
            "tracker wandb: the package is not installed\n    fix: pip install road-ray[wandb]"
        ) from error
    # Without these settings, wandb records sys.argv, the git remote and all output (measured).
    settings = wandb.Settings(
        x_disable_meta=True,
        disable_git=True,
        init_timeout=START_TIMEOUT_SECONDS,
        save_code=False,
        console="off",
        silent=True,
    )
    try:
        run = wandb.init(
            project=project,
            name=run_name,
            group=group,
            id=_run_id(run_dir),
            resume="allow",
            dir=str(run_dir),
            config=redact(config),
            mode=mode,
            settings=settings,
        )
        return _Wandb(run)
    except Exception as error:
        _log.warning("wandb cannot be reached, training continues without it: %s", error)
        return _Unreachable(error)


class _TensorBoard:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self, *, failed: bool) -> None:
        self._writer.close()


def tensorboard_tracker(run_dir: Path) -> Tracker:
    """Return a tracker that writes event files to ``tensorboard/`` of the run directory. The writer
    comes with Ray Tune.
    """
    from tensorboardX import SummaryWriter

    # File names have seconds only: two starts within one second would write the same file.
    suffix = f".{time.time_ns()}"
    return _TensorBoard(SummaryWriter(str(run_dir / "tensorboard"), filename_suffix=suffix))


class _MLflow:
    def __init__(self, client: Any, run_id: str) -> None:
        self._client, self._run_id = client, run_id

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        finite = {n: v for n, v in metrics.items() if v is not None and math.isfinite(v)}
        rows = [Metric(name, value, now, step) for name, value in finite.items()]
        self._client.log_batch(self._run_id, metrics=rows)

    def close(self, *, failed: bool) -> None:
        self._client.set_terminated(self._run_id, "FAILED" if failed else "FINISHED")


def mlflow_tracker(
    uri: str, experiment: str, run_name: str, config: Mapping[str, Any], run_dir: Path
) -> Tracker:
    """Return a tracker for MLflow at a server or database (``http://...``,
    ``sqlite:///mlflow.db``). A run directory keeps its run id; secrets are masked.

    If it cannot be reached, the tracker fails at its first row, and the journal drops it. Raises
    ``ConfigError`` if mlflow is not installed.
    """
    try:
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise ConfigError(
            "tracker mlflow: the package is not installed\n    fix: pip install road-ray[mlflow]"
        ) from error
    for name, most in {"TIMEOUT": START_TIMEOUT_SECONDS, "MAX_RETRIES": 1}.items():
        os.environ.setdefault(f"MLFLOW_HTTP_REQUEST_{name}", f"{most:.0f}")
    id_file = run_dir / "mlflow" / "run_id.txt"
    try:
        client = MlflowClient(tracking_uri=uri)
        if id_file.is_file():
            run_id = id_file.read_text(encoding="ascii").strip()
            client.update_run(run_id, status="RUNNING")
            return _MLflow(client, run_id)
        existing = client.get_experiment_by_name(experiment)
        number = existing.experiment_id if existing else client.create_experiment(experiment)
        run_id = client.create_run(number, run_name=run_name).info.run_id
        params = [
            Param(name, str(value)[:_LONGEST_VALUE])
            for name, value in flatten(redact(config)).items()
        ]
        client.log_batch(run_id, params=params)
        id_file.parent.mkdir(parents=True, exist_ok=True)
        id_file.write_text(f"{run_id}\n", encoding="ascii")
        return _MLflow(client, run_id)
    except Exception as error:
        _log.warning("mlflow cannot be reached, training continues without it: %s", error)
        return _Unreachable(error)


def _run_id(run_dir: Path) -> str:
    """Return the id of this run directory, which is created at its first start."""
    path = run_dir / "wandb" / "run_id.txt"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(uuid.uuid4().hex + "\n", encoding="ascii")
    return path.read_text(encoding="ascii").strip()
