"""Configuration of ``road multitask``: the data sets, how steps mix them, and their teachers.

``recipes/train/mixture.py`` consumes ``data`` and ``mixing``, ``find_teachers.py`` consumes
``distillation``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from road_ray.config import Config
from road_ray.config.identity import ByContent, Free
from road_ray.data.config import Sampler, SourceConfig
from road_ray.recipes.config import RunConfig
from road_ray.recipes.distillation.config import TeachingConfig, WeightingConfig
from road_ray.recipes.distillation.teacher_list import resolve_teachers
from road_ray.recipes.finetuning.config import training_inputs
from road_ray.recipes.run_directory.input_files import Inputs
from road_ray.training.config import OptimizerConfig, TrainingConfig


class MultitaskDataConfig(SourceConfig):
    """Data sets of the mixture and the batches of one pass."""

    datasets: tuple[str, ...] = Field(("squad_v2", "mnli", "qqp", "sst2"), min_length=1)
    """Data sets of the mixture, of the catalogue or of ``data.sets``, each once. The top level of
    ``hf/`` gets the head of the first one. ROaD mixes nine (part 1, figure 2), preset
    ``road_large``."""
    unlabelled: dict[str, tuple[str, ...]] = Field({})
    """Files and data sets by data set of the mixture, whose rows follow its own without labels; the
    teachers of that data set alone teach them. Layouts are those of ``data.unlabelled`` of ``road
    distill``. Empty: none."""
    batch_size: int = Field(128, ge=1)
    """Global batch size of one pass, in examples, over all workers. A step has ``mixing.passes``
    times as many: ROaD's 512 = 4 * 128 (part 1, section 3.5)."""
    max_batch_tokens: int | None = Field(None, ge=8)
    """Maximum size of the batch of one pass, in tokens with padding. It then holds rows of similar
    length, as many as fit, at most ``data.batch_size``. None: every pass has ``data.batch_size``
    rows."""

    @property
    def trained_on(self) -> tuple[str, ...]:
        """Data sets that are trained on."""
        return self.datasets

    @property
    def unlabelled_rows(self) -> dict[str, tuple[str, ...]]:
        """``unlabelled``."""
        return self.unlabelled

    @property
    def evaluated_on(self) -> tuple[str, ...]:
        """Data sets that are evaluated on at the end."""
        return self.datasets

    def splits(self) -> list[tuple[str, str, SourceConfig]]:
        """Return the data set, the split and the source of all that is trained and evaluated on."""
        return [(name, split, self) for name in self.datasets for split in ("train", "dev")]


class MixingConfig(Config):
    """Composition of a training step: passes, sampling of data sets, heads and loss weights.
    Source: ROaD part 1, Algorithm 1; part 2, section 5.1 (4 passes are the best of 1, 2, 4 and 8).
    """

    passes: int = Field(4, ge=1)
    """Number of data sets that are drawn for each step; their gradients are averaged. 4 in ROaD, 1
    in MT-DNN."""
    sampler: Sampler = "uniform_dataset"
    """Probability of a data set in each draw. ``uniform_dataset``: equal (ROaD). ``uniform_task``:
    equal for all tasks, then equal within one. ``proportional``: by number of rows (MT-DNN).
    ``size_power``: by number of rows to ``mixing.power`` (BAM). ``annealed``: by number of rows at
    first, and ever more equal: to the power of 1 - 0.8 of the fraction of training that is done
    (Stickland and Murray 2019)."""
    power: float = Field(0.75, gt=0)
    """Exponent of the number of rows with ``mixing.sampler`` = ``size_power``. 1 is proportional;
    the smaller it is, the more uniform are the draws. Source: Clark et al. 2019 (BAM)."""
    replacement: bool = True
    """Draw the data sets of a step with replacement, so that one may come twice. False: they
    differ, and ``mixing.passes`` is at most their number."""
    heads: Literal["task", "dataset"] = "task"
    """Sharing of heads. ``task``: one head for each task, shared by its data sets (ROaD).
    ``dataset``: one head for each data set (MT-DNN)."""
    weights: dict[str, float] = Field({})
    """Factor of the loss by data set or task. Empty: 1 for all, as in ROaD."""


class MixTeachingConfig(TeachingConfig):
    """Teachers of the data sets of a mixture and the distillation loss. Source: ROaD part 1,
    section 3.5 (multi-task training with distillation).
    """

    teachers: Annotated[dict[str, str | tuple[str, ...]], ByContent()] = Field({})
    """Teachers by data set: a model or run directory, a hub name, a ``teachers.json``, or a list of
    directories. Data sets without an entry learn from labels only. Empty: no distillation."""
    num_teachers: Free[int | None] = Field(None, ge=1)
    """Number of teachers that every data set of the mixture must have; a data set without teachers
    then needs the entry ``[]``. None: any number. Set it so that a forgotten data set is an error.
    """
    temperature: float = Field(4.0, ge=0.01, le=1000)
    """Temperature T of teacher and student logits in the distillation loss. ROaD uses more than 3
    in this stage without naming the value; 4 is our choice."""

    @property
    def by_dataset(self) -> dict[str, tuple[str, ...]]:
        """Entries of the data sets that have some."""
        entries = {n: (e,) if isinstance(e, str) else e for n, e in self.teachers.items()}
        return {name: names for name, names in entries.items() if names}

    @property
    def total_teachers(self) -> int:
        """Number of teachers of the run, over all data sets."""
        return sum(len(resolve_teachers(names)[0]) for names in self.by_dataset.values())


class MultitaskConfig(RunConfig):
    """Multi-task pre-training of one encoder on a mixture of data sets. Source of the defaults:
    ROaD-Large, ROaD part 1, section 3.5.
    """

    run_dir: Path = Path("runs/multitask")
    """Directory of the run: configuration, metrics, checkpoints and final models. The same command
    on the same directory resumes the run."""
    init: str = ""
    """Encoder to start from: a run directory, an ``hf/`` directory or a hub name. Required. ROaD
    starts from the ELECTRA discriminator."""
    data: MultitaskDataConfig = MultitaskDataConfig()
    """Data sets of the mixture, row length and batch size."""
    mixing: MixingConfig = MixingConfig()
    """Composition of a step: passes, sampling of data sets, heads and loss weights."""
    distillation: MixTeachingConfig = MixTeachingConfig()
    """Teachers of the data sets and the distillation loss. By default there are no teachers."""
    weighting: WeightingConfig = WeightingConfig()
    """Weights of several teachers of one data set. Without effect where a data set has one teacher
    or none, except that a rule may scale its logits."""
    optimizer: OptimizerConfig = OptimizerConfig(
        peak_lr=3e-4, layer_decay=0.75, warmup_steps=500, schedule="warmup_then_decay"
    )
    """Optimizer and learning-rate schedule. The defaults are ROaD's: peak rate 3e-4, layer decay
    0.75, 500 steps of warm-up to the peak, then linear decay (part 1, section 3.5)."""
    training: TrainingConfig = TrainingConfig(steps=20_000)
    """Number of steps, evaluations and checkpoints. 20,000 steps as for ROaD-Large (part 1, section
    3.5); ROaD-Base has 40,000 (part 2, section 5.1)."""

    @property
    def named_teachers(self) -> dict[str, tuple[str, ...]]:
        """Entries of the teachers by data set, in the order of the mixture."""
        named = self.distillation.by_dataset
        return {name: named[name] for name in self.data.datasets if name in named}

    def inputs(self) -> Inputs:
        return training_inputs(self)
