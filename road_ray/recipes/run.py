"""A run directory: opened once by one process, recorded, resumed by the same command, finished.

Holds what every recipe shares: where a run lies, on how many workers, and what is written about it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

from pydantic import AfterValidator, Field

from road_ray.config import Config, load, to_dict, to_yaml
from road_ray.distributed.launch import check_machine
from road_ray.errors import ConfigError, DivergedError, ResourceError, RoadError
from road_ray.reporting.provenance import environment, revision, version_of
from road_ray.reporting.report import leave_report
from road_ray.training.checkpoint import Checkpoints, disk_error
from road_ray.training.console import Work
from road_ray.training.journal import Journal, write_json_atomic
from road_ray.training.mirror import check_address
from road_ray.training.trackers import (
    mlflow_tracker,
    tensorboard_tracker,
    wandb_tracker,
    watchers,
)

_log = logging.getLogger(__name__)
RECORD = "config.resolved.yaml"  # of every run directory
# Keys that may differ when a run goes on: they change where and how it runs, not what comes out;
# or they are the way out of an error (on_spike).
FREE_ON_RESUME = {
    *("run_dir", "workers", "least_workers", "gpus_per_worker", "address", "console", "at_once"),
    "timeout_seconds",
    *(f"tracking.{name}" for name in ("wandb_project", "wandb_mode", "wandb_group")),
    *(f"tracking.{name}" for name in ("mlflow_uri", "mlflow_experiment", "tensorboard")),
    *(f"training.{what}_every_steps" for what in ("log", "evaluate", "save")),
    *("training.keep_checkpoints", "training.mirror", "training.on_spike", "data.cache"),
    *("training.activation_checkpointing", "training.sharded"),
    *(f"distillation.{what}" for what in ("host", "lookahead", "timeout_seconds")),
    *(f"distillation.{what}" for what in ("store", "probe", "allow_other_teachers")),
    *(f"distillation.{what}_per_teacher" for what in ("cpus", "gpus")),
}


class TrackingConfig(Config):
    """Where figures go besides the run directory."""

    wandb_project: str | None = None  # None: nowhere; needs road-ray[wandb]
    wandb_mode: Literal["online", "offline"] = "offline"
    wandb_group: str | None = None  # runs that belong together; a sweep gives its name
    # A server or database: http://host:5000, sqlite:///mlflow.db; needs road-ray[mlflow]
    mlflow_uri: Annotated[str, AfterValidator(check_address)] | None = None
    mlflow_experiment: str = "road_ray"
    tensorboard: bool = False  # tensorboard/ in the run directory, which `tensorboard` reads


class RunConfig(Config):
    """What every training verb has in common."""

    run_dir: Path = Path("runs/run")
    seed: int = Field(0, ge=0)
    workers: int = Field(0, ge=0)  # 0: this process; N: Ray Train workers
    # With fewer than `workers`, down to so many, while machines are missing; None: waits for all.
    least_workers: int | None = Field(None, ge=1)
    gpus_per_worker: float = Field(0.0, ge=0)
    address: str | None = None  # of a running Ray cluster; None: one of our own on this machine
    console: Literal["rich", "plain", "quiet"] | None = None  # None: rich on a terminal, else plain
    tracking: TrackingConfig = TrackingConfig()


@dataclass(frozen=True)
class Run:
    """A finished run: its directory and final figures."""

    directory: Path
    metrics: Mapping[str, float]

    @property
    def hf_dir(self) -> Path:
        """The final model in Hugging Face layout."""
        return self.directory / "hf"


def finished(config: RunConfig) -> Run | None:
    """The run of this directory if it is complete and of this very configuration, else None."""
    directory = config.run_dir
    if not (directory / "metrics.json").is_file() or not (directory / RECORD).is_file():
        return None
    _same_as_recorded(config)
    try:
        figures = json.loads((directory / "metrics.json").read_text(encoding="utf-8"))
    except ValueError:
        return None  # damaged: made again from the last checkpoint
    _log.info("%s is finished; nothing is left to do", directory)
    return Run(directory, figures)


@contextmanager
def opened(config: RunConfig) -> Iterator[Path]:
    """The run directory, locked for this process, with its configuration and environment recorded,
    and with ``report.html`` once the run has ended or diverged.

    Raises ``ConfigError`` when it belongs to another configuration, ``ResourceError`` when another
    process has it, ``ClusterError`` for more workers than this machine holds.
    """
    check_machine(config.workers, config.address)
    directory = config.run_dir
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "run.lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise _refused(directory, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise ResourceError(
                f"run_dir = {directory} is in use by {lock.read().strip() or 'another process'}\n"
                "  fix: wait for it, stop it, or choose another directory; nothing was changed"
            ) from None
        if _has_progress(directory):
            _same_as_recorded(config)
        try:
            _record(config, lock)
        except OSError as error:
            raise _refused(directory, error) from error
        try:
            yield directory
        except Exception as error:
            if isinstance(error, DivergedError):
                leave_report(directory)  # what led there is seen best in its curves
            if isinstance(error, RoadError) or disk_error(error) is None:
                raise
            raise _refused(directory, error) from error
        leave_report(directory)


def _refused(directory: Path, error: Exception) -> ResourceError:
    number = disk_error(error)
    reason = str(error) if number is None else os.strerror(number)
    named = getattr(error, "filename", None)
    reason += f": {named}" if named and Path(named) != directory else ""
    return ResourceError(
        f"run_dir = {directory}: cannot be written ({reason})\n"
        "  fix: free space there, make it writable, or choose another directory\n"
        "  kept: what was there before"
    )


def _has_progress(directory: Path) -> bool:
    """True when there is something that another configuration must not go on with."""
    done = (directory / "metrics.json").is_file() or any(directory.glob("checkpoints/step-*"))
    return done and (directory / RECORD).is_file()


def _record(config: RunConfig, lock: TextIO) -> None:
    """Who runs what, where. A run that failed before its first checkpoint is described anew."""
    lock.truncate(0)
    lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    lock.flush()
    record = config.run_dir / RECORD
    if not _has_progress(config.run_dir):
        header = f"# road_ray {version_of('road-ray')}, revision {revision()}\n"
        staged = record.with_suffix(".partial")
        staged.write_text(header + to_yaml(config), encoding="utf-8")
        staged.replace(record)
    found = environment() | {"seed": config.seed}
    write_json_atomic(config.run_dir / "environment.json", found)


def _same_as_recorded(config: RunConfig) -> None:
    path = config.run_dir / RECORD
    recorded = _flat(to_dict(load(type(config), path=path)))
    now = _flat(to_dict(config))
    free = set(FREE_ON_RESUME)
    named = {key for key in {*recorded, *now} if key.startswith("distillation.teachers.")}
    if now.get("distillation.allow_other_teachers"):
        free |= {"distillation.teachers", "distillation.num_teachers", *named}
    changed = [
        key
        for key in sorted({*recorded, *now})
        if recorded.get(key) != now.get(key) and key not in free
    ]
    if changed:
        lines = "".join(
            f"\n    {key}: there {recorded.get(key)!r}, asked {now.get(key)!r}" for key in changed
        )
        raise ConfigError(
            f"run_dir = {config.run_dir} holds a run of another configuration:{lines}\n"
            "  fix: name another run_dir, or repeat the command that began this one\n"
            "  kept: that run, as it is"
        )


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def journal(
    config: RunConfig, *, leads: bool, total_steps: int | None, work: Work = float
) -> Journal:
    """The journal of a run, with the trackers that were asked for; silent on workers that do not
    lead. ``work`` is what the time left goes by.
    """
    trackers = watchers(total_steps)
    if leads and config.tracking.wandb_project is not None:
        trackers.append(
            wandb_tracker(
                config.tracking.wandb_project,
                config.run_dir.name,
                to_dict(config),
                config.run_dir,
                config.tracking.wandb_mode,
                config.tracking.wandb_group,
            )
        )
    if leads and config.tracking.mlflow_uri is not None:
        trackers.append(
            mlflow_tracker(
                config.tracking.mlflow_uri,
                config.tracking.mlflow_experiment,
                config.run_dir.name,
                to_dict(config),
                config.run_dir,
            )
        )
    if leads and config.tracking.tensorboard:
        trackers.append(tensorboard_tracker(config.run_dir))
    return Journal(
        config.run_dir,
        console=config.console,
        trackers=trackers,
        enabled=leads,
        total_steps=total_steps,
        work=work,
    )


def checkpoints(config: RunConfig, log: Journal, *, keep: int) -> Checkpoints:
    """The checkpoints of a run; a damaged one that is passed over is an event of its journal."""

    def tell(event: dict[str, Any]) -> None:
        log.event(**event)

    made = Checkpoints(config.run_dir / "checkpoints", keep=keep, on_event=tell)
    if log.enabled:
        made.prepare()  # a directory that cannot be written is found before the first step
    return made
