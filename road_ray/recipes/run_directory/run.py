"""Run directories: locked by one process, recorded, resumed by the same command, finished.

Every recipe uses these functions to open its directory, its journal and its checkpoints.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TextIO

from road_ray.config import to_dict, to_yaml
from road_ray.config.base import resume_identity
from road_ray.distributed.connection import check_machine, connected
from road_ray.distributed.environment_check import environment, revision, version_of
from road_ray.errors import CheckpointError, ConfigError, DivergedError, ResourceError, RoadError
from road_ray.recipes.config import RunConfig
from road_ray.recipes.run_directory import input_files, recorded_config
from road_ray.recipes.run_directory.input_files import INPUTS
from road_ray.recipes.run_directory.recorded_config import RECORD
from road_ray.reporting.report import REPORT, write_report
from road_ray.system.files import read_json, unwritable, write_atomic, write_json_atomic
from road_ray.system.operating_system import is_disk_error, lock_exclusively
from road_ray.training.checkpoint_directory import MANIFEST, Checkpoints, has_checkpoints
from road_ray.training.monitoring import trackers
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.monitoring.trackers import Tracker
from road_ray.training.run_context import RunContext, Training, oom_as_error
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)
LOCK = "run.lock"
_LINE = "\n    "


@dataclass(frozen=True)
class Run:
    """A finished run: its directory and its final metrics.

    >>> import road_ray as rr
    >>> run = rr.finetune(overrides={"run_dir": "runs/mine", "init": "runs/encoder",
    ...     "data.root": "miniature", "training.steps": 2})
    >>> sorted(run.metrics)
    ['data/sst2/overlap_with_train', 'eval/sst2/accuracy', ...]
    >>> run.hf_dir.as_posix()
    'runs/mine/hf'
    """

    directory: Path
    metrics: Mapping[str, float]

    @property
    def hf_dir(self) -> Path:
        """Directory of the final model in Hugging Face layout."""
        return self.directory / "hf"


def load_finished_run(config: RunConfig) -> Run | None:
    """Return the run of this directory if it is finished, undamaged, and has this configuration and
    these inputs; None when it is to be run or resumed.

    Raises ``ConfigError`` for another configuration, ``CheckpointError`` for other inputs and with
    the list of its damaged files.
    """
    directory = config.run_dir
    if _status(config) != "finished":
        return None
    remedy = "restore it, or delete it: the same command makes it again where checkpoints are kept"
    metrics = read_json(directory / "metrics.json", fix=remedy)
    if problems := recorded_config.damage(directory):
        raise CheckpointError(
            f"{directory} is finished, and its files differ from its {MANIFEST}:"
            f"{_LINE.join(['', *problems])}\n"
            "  fix: restore them, or name another run_dir to run it again\n"
            "  kept: that run, as it is"
        )
    if not all((directory / name).is_file() for name in (MANIFEST, REPORT)):
        _complete(directory)  # it was killed after its last step, or the disk was full
    _log.info("%s is finished; nothing is left to do", directory)
    return Run(directory, metrics)


def _status(config: RunConfig) -> Literal["new", "resumable", "finished"]:
    """Return what the run directory holds. Raises ``ConfigError`` for a run of another
    configuration and ``CheckpointError`` for one that read other files.

    A start that failed before its first checkpoint binds to nothing: it is ``new``, as is a run of
    several runs that is to have more of them.
    """
    directory = config.run_dir
    finished = (directory / "metrics.json").is_file()
    if not (directory / RECORD).is_file():
        if not finished:
            return "new"
        raise CheckpointError(
            f"{directory / RECORD} is missing, so the configuration of these metrics is unknown\n"
            "  fix: restore it, or name another run_dir\n  kept: the run, as it is"
        )
    if not finished and not has_checkpoints(directory / "checkpoints"):
        return "new"
    extended = recorded_config.require_same(config, directory)
    changed = input_files.changed_inputs(directory)
    lines = _LINE.join(["", *changed])
    if changed and config.repeatable:
        _log.warning("%s: run again, because it read other files:%s", directory, lines)
    elif changed:
        raise CheckpointError(
            f"{directory}: was trained with other inputs; {directory / INPUTS} names them:{lines}\n"
            "  fix: restore them, or name another run_dir to train with the present files\n"
            "  kept: that run, as it is"
        )
    if extended:
        return "new"
    return "finished" if finished and not changed else "resumable"


def _complete(directory: Path, *, keep: int | None = None) -> None:
    """Write manifest and report of a finished run, and remove its checkpoints but the newest
    ``keep``. A failure is logged and does not fail the run.
    """
    if not (directory / "metrics.json").is_file():
        return  # a plan
    try:
        recorded_config.seal(directory)
        freed = 0 if keep is None else Checkpoints(directory / "checkpoints").retire(keep)
        if freed:
            with Journal(directory, console="quiet") as log:
                text = f"{directory} is finished: removed {freed / 1e6:.1f} MB of its checkpoints "
                text += "(training.keep_checkpoints_at_end)"
                log.event("checkpoints_removed", text, bytes=freed, kept=keep)
    except (OSError, RoadError) as error:
        _log.warning("%s: no %s, or not all checkpoints removed: %s", directory, MANIFEST, error)
    write_report(directory)


@contextmanager
def open_run_directory(config: RunConfig, *, keep_checkpoints: int | None = None) -> Iterator[Path]:
    """Lock the run directory for this process and record configuration and environment; on exit,
    write the inputs and, once the run has finished or diverged, ``report.html``.
    ``keep_checkpoints`` is the number of checkpoints to keep once the run has finished. None: all.

    Raises ``ConfigError`` when it holds a run of another configuration, ``ResourceError`` when
    another process uses it, ``ClusterError`` for more workers than this machine has cores.
    """
    check_machine(config.workers, config.address)
    directory = config.run_dir
    with lock_run_directory(directory):
        status = _status(config)
        if status == "new":
            header = f"# road_ray {version_of('road-ray')}, revision {revision()}\n"
            write_atomic(directory / RECORD, header + to_yaml(config))
            earlier = (INPUTS, "metrics.json", "mlflow/run_id.txt", "wandb/run_id.txt")
            for path in filter(Path.is_file, map(directory.joinpath, earlier)):
                path.unlink()
        inputs = input_files.current_inputs(directory, config.inputs())
        if not (directory / "metrics.json").is_file():  # else it describes the metrics there
            write_json_atomic(directory / INPUTS, inputs)
        machine = environment() | {"seed": config.seed}
        write_json_atomic(directory / "environment.json", machine)
        try:
            yield directory
            write_json_atomic(directory / INPUTS, inputs)
        except Exception as error:
            if isinstance(error, DivergedError):
                write_report(directory)  # its curves show what led there
            if isinstance(error, RoadError) or not is_disk_error(error):
                raise
            raise unwritable(f"run_dir = {directory}", error) from error
        _complete(directory, keep=keep_checkpoints)


def launch(
    main: Callable[..., dict[str, float]],
    config: RunConfig,
    *extra: object,
    context: RunContext | None = None,
) -> dict[str, float]:
    """Run ``main(config, worker, context, *extra)`` here (``workers = 0``) or in that many Ray
    Train workers, and return the result of rank 0. With ``min_workers`` a group that loses machines
    continues with fewer, down to that number, and grows again.

    A worker in another process gets a ``RunContext`` of its own, which stop requests reach and
    whose rows come back to ``context.on_row``.

    Raises the ``RoadError`` that a worker raised, and ``ConfigError`` for several workers on one
    GPU. A worker that dies is restarted with its group, and ``main`` resumes from its own
    checkpoints.
    """
    context = context or RunContext()
    if config.workers > 1 and 0 < config.gpus_per_worker < 1:
        raise ConfigError(
            f"gpus_per_worker = {config.gpus_per_worker:g} with workers = {config.workers}: NCCL, "
            "which sums their gradients, takes one worker for each GPU\n"
            "  allowed: 1 or more; a fraction with one worker, or for runs that train at once\n"
            "  fix: gpus_per_worker=1 with as many workers as there are GPUs; nothing was started"
        )

    if config.workers == 0:
        with oom_as_error(0, context):
            return main(config, Worker.alone(), context, *extra)
    with connected(config.address):  # first: Ray reads its settings when it is imported
        from road_ray.distributed.train.worker_group import fit_worker_group

        return fit_worker_group(main, config, extra, context)


def lock_run_directory(directory: Path) -> TextIO:
    """Create a run directory and return its lock, which this process holds until it is closed.

    Raises ``ResourceError`` when another process holds it, or the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / LOCK).open("a+", encoding="utf-8")
        holder = lock_exclusively(lock)
    except OSError as error:
        raise unwritable(f"run_dir = {directory}", error) from error
    if holder:
        lock.close()
        raise ResourceError(
            f"run_dir = {directory} is in use by {holder}\n"
            "  fix: wait for it, stop it, or choose another directory; nothing was changed"
        )
    return lock


def trackers_of(
    config: RunConfig, context: RunContext, total_steps: int | None
) -> dict[str, Callable[[], Tracker]]:
    """Return the functions that start the configured trackers and that of ``context.on_row``."""
    tracking, directory = config.tracking, config.run_dir
    group, keys = tracking.group, to_dict(config)
    outer = [above for above in directory.parents if (above / LOCK).is_file()]
    # Of a run inside others the path below the outermost: `seed-0` alone is that of every trial.
    name = directory.relative_to(outer[-1].parent).as_posix() if outer else directory.name
    made: dict[str, Callable[[], Tracker]] = {}
    if (on_row := context.on_row) is not None:
        made["callback"] = lambda: Tracker(lambda step, row: on_row(step, total_steps, row))
    if (project := tracking.wandb_project) is not None:
        made["wandb"] = partial(trackers.wandb_tracker, project, name, keys, directory, group)
    if (uri := tracking.mlflow_uri) is not None:
        group = group or "road_ray"
        made["mlflow"] = partial(trackers.mlflow_tracker, uri, group, name, keys, directory)
    if tracking.tensorboard:
        made["tensorboard"] = partial(trackers.tensorboard_tracker, directory)
    if (own := tracking.custom) is not None:
        made[own] = trackers.own_tracker(own, directory, name, keys)
    return made


@contextmanager
def open_training(
    config: Any,
    worker: Worker,
    context: RunContext,
    *,
    heads: Mapping[str, Sequence[str]],
    total_steps: int,
    **fields: Any,
) -> Iterator[Training]:
    """Yield the training of a run with its open journal and its checkpoints, what its configuration
    says of it, and further ``fields``. The ``heads`` that are ``kept`` from ``init`` and those that
    are ``new`` are logged, and an event of a run that begins; a damaged checkpoint that is skipped
    is an event too.

    Raises ``ResourceError`` before the first step when the directory cannot be written.
    """
    place, keep = config.run_dir / "checkpoints", config.training.keep_checkpoints
    main = worker.is_main
    made = trackers_of(config, context, total_steps) if main else {}
    shown = {"console": config.console, "enabled": main, "total_steps": total_steps}
    with Journal(config.run_dir, trackers=made, **shown) as log:
        if heads and main:
            kept, new = (", ".join(heads[status]) or "none" for status in ("kept", "new"))
            _log.info("init = %s: heads kept: %s; new: %s", config.init, kept, new)
        if heads and not context.plan_only and not has_checkpoints(place):
            log.event("initialized", init=config.init, kept=heads["kept"], new=heads["new"])
        checkpoints = Checkpoints(place, keep=keep, on_event=log.event)
        if main:
            checkpoints.prepare()
        yield Training(
            config=config.training,
            optimizer=config.optimizer,
            total_steps=total_steps,
            worker=worker,
            seed=config.seed,
            configuration=resume_identity(config),
            checkpoints=checkpoints,
            journal=log,
            attention=config.encoder.attention,
            context=context,
            **fields,
        )
