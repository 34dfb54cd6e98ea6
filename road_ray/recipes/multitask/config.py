"""What a multi-task pre-training is told: its data sets, how they are mixed, and who teaches."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from road_ray.config import Config
from road_ray.data.config import Sampler, SourceConfig
from road_ray.recipes.config import RunConfig
from road_ray.recipes.distillation.config import TeachingConfig, WeightingConfig
from road_ray.recipes.distillation.teacher_list import resolve_teachers, teacher_files
from road_ray.recipes.inputs import TEACHERS, Inputs, model_files, split_files
from road_ray.training.config import OptimizerConfig, TrainingConfig


class MultitaskDataConfig(SourceConfig):
    """The data sets that are mixed."""

    datasets: tuple[str, ...] = Field(("squad_v2", "mnli", "qqp", "sst2"), min_length=1)
    batch_size: int = Field(128, ge=1)
    """Of one pass, global, in examples: 512 / 4 (ROaD part 1, section 3.5)."""
    max_batch_tokens: int | None = Field(None, ge=8)
    """Of a pass with its padding: rows of like length, as many as fit, at most batch_size. None:
    every pass has batch_size rows.
    """


class MixingConfig(Config):
    """How a step is put together. Source: ROaD part 1, Algorithm 1; part 2, section 5.1 (4 is best
    of 1 to 8).
    """

    passes: int = Field(4, ge=1)
    """Data sets drawn a step, their gradients averaged."""
    sampler: Sampler = "uniform_dataset"
    """How likely a data set is drawn: all alike, all tasks alike, by rows, or by rows ** power."""
    power: float = Field(0.75, gt=0)
    """Of size_power (BAM)."""
    replacement: bool = True
    """A step may draw one data set twice."""
    heads: Literal["task", "dataset"] = "task"
    """One head a task, shared by its data sets (ROaD), or one a data set (MT-DNN)."""
    weights: dict[str, float] = Field({})
    """What the loss of a data set or of a task is multiplied by; those not named: 1."""


class MixTeachingConfig(TeachingConfig):
    """The teachers of each data set. Source: ROaD part 1, section 3.5 (multi-task training with
    distillation).
    """

    teachers: dict[str, str | tuple[str, ...]] = Field({})
    """By data set: a model or run directory, a hub name or a teachers.json, or a list of
    directories. Those that are not named learn from gold alone.
    """
    num_teachers: int | None = Field(None, ge=1)
    """As many as every data set of the mix must have, so that none is forgotten ([] for one that is
    to have none); None: as many as are named.
    """
    temperature: float = Field(4.0, ge=0.01, le=1000)
    """Of both sides; ROaD: above 3."""

    def of(self, dataset: str) -> tuple[str, ...]:
        """What is named for a data set."""
        named = self.teachers.get(dataset, ())
        return (named,) if isinstance(named, str) else named

    @property
    def num_asked(self) -> int:
        """How many teachers answer for a run, over all data sets."""
        return sum(len(resolve_teachers(self.of(name))[0]) for name in self.teachers)


class MultitaskConfig(RunConfig):
    """Source of the defaults: ROaD part 1, section 3.5 (steps for Large)."""

    run_dir: Path = Path("runs/multitask")
    init: str = ""
    """A run directory, an hf/ directory or a hub name."""
    data: MultitaskDataConfig = MultitaskDataConfig()
    mixing: MixingConfig = MixingConfig()
    distillation: MixTeachingConfig = MixTeachingConfig()
    weighting: WeightingConfig = WeightingConfig()
    optimizer: OptimizerConfig = OptimizerConfig(peak_lr=3e-4, layer_decay=0.75, warmup_steps=500)
    training: TrainingConfig = TrainingConfig(steps=20_000)

    def inputs(self) -> Inputs:
        names, taught = self.data.datasets, self.distillation.teachers
        splits = (split_files(self.data, names, split) for split in ("train", "dev"))
        return {
            "init": model_files(self.init),
            "data": [path for paths in splits for path in paths],
            TEACHERS: [
                path for name in taught for path in teacher_files(self.distillation.of(name))
            ],
        }
