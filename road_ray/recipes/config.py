"""Configuration that every recipe shares, and that of `road evaluate` and `road demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from road_ray.config import Config
from road_ray.data.config import MINIATURE, SourceConfig
from road_ray.recipes.distillation.teacher_list import teacher_files
from road_ray.recipes.inputs import (
    Inputs,
    model_files,
    split_files,
)
from road_ray.training.checkpoint.remote_copy import check_address

if TYPE_CHECKING:
    pass


class TrackingConfig(Config):
    """Where figures go besides the run directory."""

    wandb_project: str | None = None
    """None: nowhere; needs road-ray[wandb]."""
    wandb_mode: Literal["online", "offline"] = "offline"
    wandb_group: str | None = None
    """Runs that belong together; a sweep gives its name."""
    mlflow_uri: Annotated[str, AfterValidator(check_address)] | None = None
    """A server or database: http://host:5000, sqlite:///mlflow.db; needs road-ray[mlflow]."""
    mlflow_experiment: str = "road_ray"
    tensorboard: bool = False
    """Tensorboard/ in the run directory, which `tensorboard` reads."""


class RunConfig(Config):
    """What every training verb has in common."""

    run_dir: Path = Path("runs/run")
    seed: int = Field(0, ge=0)
    workers: int = Field(0, ge=0)
    """0: this process; N: Ray Train workers."""
    min_workers: int | None = Field(None, ge=1)
    """With fewer than `workers`, down to so many, while machines are missing; None: waits for all.
    """
    gpus_per_worker: float = Field(0.0, ge=0)
    address: str | None = None
    """Of a running Ray cluster; None: one of our own on this machine."""
    console: Literal["rich", "plain", "quiet"] | None = None
    """None: rich on a terminal, else plain."""
    tracking: TrackingConfig = TrackingConfig()

    # Whether a finished run is run again, not refused, when a file that it read has changed since.
    repeatable: ClassVar[bool] = False

    def inputs(self) -> Inputs:
        """Return the local files that the result follows from, by kind; those of runs inside this
        one are their own.
        """
        return {}


class EvaluateDataConfig(SourceConfig):
    """What the model is judged on; ``max_length_tokens`` None: as it was trained."""

    datasets: tuple[str, ...] = Field(("sst2",), min_length=1)
    split: str = "dev"
    same_as: dict[str, str] = Field({})
    """Changed set -> the set that it was made from: do predictions agree where both mean the same.
    """


class EvaluateConfig(RunConfig):
    """One model, any data sets of its task."""

    run_dir: Path = Path("runs/evaluate/{name}")
    """{name}: of the model and of what it is judged on, so that each has a directory of its own."""
    init: str = ""
    """A run directory, an hf/ directory or a hub name, with a trained head; or a teachers.json: the
    mean of their logits is judged then, as eval/<data set>/ensemble_<metric>.
    """
    tune_threshold: bool = False
    """Find the no-answer threshold on the first set, not the stored one."""
    label_map: dict[str, str] = Field({})
    """The head's name of a label -> the task's, where they are not the same: {LABEL_0: negative}.
    """
    data: EvaluateDataConfig = EvaluateDataConfig()

    repeatable: ClassVar[bool] = True

    def inputs(self) -> Inputs:
        listing = [Path(self.init).expanduser()] if self.init.endswith(".json") else []
        judged = teacher_files([self.init]) if listing else model_files(self.init)
        return {
            "init": [*listing, *judged],
            "data": split_files(self.data, self.data.datasets, self.data.split),
        }


class DemoConfig(RunConfig):
    """How much of the story; the sizes are those of the embedded world."""

    run_dir: Path = Path("runs/demo")
    root: str = MINIATURE
    num_teachers: int = Field(3, ge=1)
    num_seeds: int = Field(3, ge=1)
    """Of each kind of student."""
    max_concurrent: int = Field(2, ge=1)
    """Runs side by side, one core each."""
    pretraining_steps: int = Field(600, ge=1)
    multitask_steps: int = Field(300, ge=1)
    finetuning_steps: int = Field(80, ge=1)
