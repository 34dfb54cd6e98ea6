"""Configuration that every recipe shares, and that of ``road evaluate`` and ``road demo``.

``RunConfig`` is the base of the configuration of every verb: run directory, seed, workers, cluster,
console and trackers. ``recipes/run_directory/run.py`` and ``distributed/train/`` consume
it, ``recipes/evaluate.py`` and ``experiment/run.py`` the other two.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from road_ray.config import Config
from road_ray.config.base import Extends, Free, FreeOnResume, fixed_values
from road_ray.data.config import SourceConfig
from road_ray.recipes.run_directory.input_files import Inputs, identity_of, model_files, split_files
from road_ray.recipes.train.teaching_config import teacher_files
from road_ray.system.own_names import name_of

IN_THIS_PROCESS: dict[str, object] = {"workers": 0, "min_workers": None}
IN_THIS_PROCESS |= {"gpus_per_worker": 0.0, "address": None}
"""Keys of a run in one process."""
WORKER_KEYS = ("workers", "min_workers", "gpus_per_worker")


class TrackingConfig(Config):
    """Experiment trackers that receive the metrics of a run besides ``metrics.jsonl``."""

    wandb_project: str | None = None
    """Weights & Biases project to log to; needs ``road-ray[wandb]``. Metrics go to ``wandb/`` in
    the run directory, for ``wandb sync``, or with ``WANDB_MODE=online`` in the environment to the
    server during the run. None: no logging to Weights & Biases."""
    mlflow_uri: str | None = None
    """MLflow server or database to log to, such as ``http://host:5000`` or ``sqlite:///mlflow.db``;
    needs ``road-ray[mlflow]``. None: no logging to MLflow. Credentials belong in the environment.
    """
    group: str | None = None
    """Weights & Biases group and MLflow experiment of the run, which are created where they do not
    exist. None: no group, and the experiment ``road_ray``; for a sweep, the name of the sweep."""
    tensorboard: bool = False
    """Write TensorBoard event files to ``tensorboard/`` in the run directory."""
    custom: Annotated[str, name_of("tracker")] | None = None
    """Tracker of your own, ``package.module:name``: a function of run directory, name and
    configuration (secrets masked) that returns a ``Tracker``. None: no such tracker."""


class RunConfig(Config):
    """Run directory, seed, workers, cluster, console and trackers of one run."""

    run_dir: Free[Path] = Path("runs/run")
    """Directory of the run: configuration, metrics, checkpoints and final model. The same command
    on the same directory resumes the run. On several machines it must be on a shared disk."""
    seed: int = Field(0, ge=0)
    """Random seed of new weights, order of batches, masking, dropout and drawn data sets. Change it
    to repeat a run."""
    workers: Free[int] = Field(0, ge=0)
    """Number of Ray Train workers that share each batch. 0: train in this process."""
    min_workers: Free[int | None] = Field(None, ge=1)
    """Smallest number of workers to train with while machines are missing; the group grows back to
    ``workers``. None: wait until all workers have a place. Set it for preemptible machines."""
    gpus_per_worker: Free[float] = Field(0.0, ge=0)
    """Number of GPUs of each worker or parallel task. 0: CPU only, except that a run without
    workers uses the GPU of this machine. A fraction lets parallel tasks share a device; workers of
    one run cannot, because NCCL takes one for each GPU."""
    address: Free[str | None] = None
    """Address of a running Ray cluster, such as ``10.0.0.1:6379``. None: the cluster of the
    environment variable ``RAY_ADDRESS`` or of the surrounding Ray job, else a local one that ends
    with the run."""
    console: Free[Literal["rich", "plain", "quiet"] | None] = None
    """Progress on standard error. ``plain``: a line for the first and the last row, for evaluations
    and every ten seconds. ``quiet``: nothing. None, and ``rich`` of earlier versions: ``plain``."""
    tracking: Free[TrackingConfig] = TrackingConfig()
    """Experiment trackers besides ``metrics.jsonl``. By default there are none."""

    repeatable: ClassVar[bool] = False
    """True where a finished run is repeated when a file that it read has changed; else the changed
    file is an error."""

    def inputs(self) -> Inputs:
        """Return the local files that the result follows from, by kind; those of runs inside this
        one are their own.
        """
        return {}

    keys_of_workers: ClassVar[tuple[str, ...]] = WORKER_KEYS[1:]
    """Keys that a run without workers does not read."""

    def without_effect(self) -> dict[str, str]:
        """Return the keys that this run would not read, each with the reason and the remedy.
        Another value than the default is refused, because it would be ignored.
        """
        if self.workers:
            return {}
        reason = (
            "a run without workers trains in this process, on the GPU of this machine if there is "
            "one\n    fix: workers=N for N workers, or leave it out"
        )
        return dict.fromkeys(self.keys_of_workers, reason)

    @model_validator(mode="after")
    def _every_key_has_an_effect(self) -> Self:
        for name, reason in self.without_effect().items():
            value = getattr(self, name)
            if value != type(self).model_fields[name].get_default(call_default_factory=True):
                raise ValueError(f"{name}: {reason}")
        if (self.min_workers or 0) > self.workers:
            raise ValueError(f"min_workers: is more than workers = {self.workers}")
        return self


def of_parallel_runs(max_concurrent: int) -> dict[str, str]:
    """Return the keys without effect where every run has a process of its own."""
    reason = "each of several runs trains in one process"
    reason += "\n    fix: max_concurrent=N trains N at the same time"
    names = WORKER_KEYS[:2] if max_concurrent else (*WORKER_KEYS, "address")
    return dict.fromkeys(names, reason)


def check_inner_keys(where: str, *given: Iterable[str]) -> None:
    """Raise ``ValueError`` for keys of runs inside another run that this one sets for all."""
    if own := [key for keys in given for key in keys if key in ("run_dir", "seed", "console")]:
        raise ValueError(f"{where}.{own[0]}: it is that of all runs\n    fix: leave it out")


class EvaluateDataConfig(SourceConfig):
    """Data sets and split to evaluate on."""

    datasets: tuple[str, ...] = ()
    """Data sets to evaluate on, of the catalogue or of ``data.sets``, each with the head of its
    task; of a ``teachers.json`` all of one task. Empty: those that the model was trained on. The
    no-answer threshold is the one that is stored with the model."""
    file: str | None = None
    """Labelled file with the columns of the data set that the model was trained on, which is
    evaluated in its place: ``road evaluate RUN FILE``. None: the split of the data set."""
    split: Literal["dev", "test", "train"] = "dev"
    """Split to evaluate on. Without labels, predictions are written and metrics are not."""


class EvaluateConfig(RunConfig):
    """Evaluation of one model, or of the ensemble of several, on data sets of its task."""

    run_dir: Path = Path("runs/evaluate/{name}")
    """Directory of the metrics and predictions. ``{name}`` stands for the model and a digest of the
    keys that decide the result, so that each evaluation has a directory of its own. An evaluation
    is repeated only when a file that it read has changed."""
    init: str = ""
    """Model to evaluate: a run directory, an ``hf/`` directory or a hub name, with a trained head.
    A ``teachers.json`` evaluates the mean of the teachers' logits, as ``eval/<data
    set>/ensemble_<metric>``. Required."""
    tune_threshold_on: str | None = None
    """Data set of ``data.datasets`` on which the no-answer threshold, or that of each of several
    labels, is tuned, for all of them; its own ``at_threshold_*`` metrics are then optimistic. None:
    the threshold that is stored with the model; a model without one gets no ``at_threshold_*``
    metrics."""
    label_map: dict[str, str | dict[str, str]] = Field({})
    """Label names of the model's head mapped to those of the task, such as ``{LABEL_0: negative}``.
    Empty: the names are equal but for case, spaces and hyphens."""
    data: EvaluateDataConfig = EvaluateDataConfig()
    """Data sets, split and row length of the evaluation. What is not given here is that of the
    training, which the run or the model records: data set, files, columns, heads and windows."""

    repeatable: ClassVar[bool] = True
    """As in ``RunConfig``."""

    def without_effect(self) -> dict[str, str]:
        reason = "`road evaluate` runs in this process, draws nothing and writes no rows"
        reason += "\n    fix: leave it out"
        return dict.fromkeys((*WORKER_KEYS, "address", "tracking", "seed"), reason)

    def placed(self) -> Self:
        """Return the configuration with a run directory named after the model and a digest, unless
        it names another directory.
        """
        if self.run_dir != EvaluateConfig.model_fields["run_dir"].default:
            return self
        parts = [part for part in Path(self.init).parts if part not in ("hf", "teachers.json")]
        name = re.sub(r"[^\w.-]+", "-", "".join(parts[-1:])) or "model"
        digest = identity_of(keys=fixed_values(self, FreeOnResume))["keys"]
        place = self.run_dir.with_name(f"{name}-{digest[:8]}")
        return self.model_copy(update={"run_dir": place})

    def inputs(self) -> Inputs:
        if self.init.endswith(".json"):
            models = [Path(self.init).expanduser(), *teacher_files([self.init])]
        else:
            models = model_files(self.init)
        return {"init": models, "data": split_files(self.data, self.data.datasets, self.data.split)}


Combination = Literal["ensemble", "uniform", "greedy"]


class CombineConfig(EvaluateConfig):
    """Arm of an experiment that joins the models of a ``teachers.json`` (``init``) and evaluates
    what they make.
    """

    combine: Combination = "uniform"
    """``ensemble``: mean of the logits. ``uniform``: mean of the weights. ``greedy``: mean of the
    weights of those models that do not lower the first metric of ``tune_threshold_on``."""

    def without_effect(self) -> dict[str, str]:
        return {}  # its seed tells it from the same arm of another seed


class DemoConfig(RunConfig):
    """Size of the demo: pre-training, multi-task training, teachers and students on the embedded
    data set. All sizes are our choice; the others stand in ``experiment/demo.yaml``.
    """

    run_dir: Path = Path("runs/demo")
    """Directory of all runs of the demo, of ``table.json`` and of ``report.html``."""
    num_teachers: int = Field(3, ge=1)
    """Number of teachers. ROaD distils from three."""
    num_seeds: Annotated[int, Extends()] = Field(5, ge=1)
    """Number of students of each kind (no, plain and weighted distillation, all labels), each with
    its own seed."""

    max_concurrent: Free[int] = Field(2, ge=1)
    """Number of teachers or students that train at the same time, one core each."""

    def without_effect(self) -> dict[str, str]:
        reason = "every run of `road demo` trains in one process on one core\n    fix: leave it out"
        return dict.fromkeys(WORKER_KEYS, reason)
