"""Configuration of ``road finetune`` and ``road teachers``, and the base of ``road distill``.

``FinetuneConfig`` is one run on one data set, ``FinetuningsConfig`` several seeds or data sets,
``TeachersConfig`` an ensemble. ``recipes/train/`` and ``recipes/several_runs.py`` consume them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from road_ray.config import Config
from road_ray.config.identity import Free
from road_ray.data.config import SourceConfig
from road_ray.errors import ConfigError
from road_ray.recipes.config import RunConfig, of_parallel_runs
from road_ray.recipes.distillation.teacher_list import teacher_files
from road_ray.recipes.run_directory.input_files import (
    TEACHERS,
    Inputs,
    model_files,
    split_files,
    unlabelled_files,
)
from road_ray.training.config import OptimizerConfig, TrainingConfig

if TYPE_CHECKING:
    from road_ray.data.features.examples_and_features import Example


class FinetuneDataConfig(SourceConfig):
    """Data set to train on, data sets to evaluate on, and the batches."""

    dataset: str = "sst2"
    """Data set to train on, of the catalogue (``road data list``) or of ``data.sets``."""
    evaluate_on: tuple[str, ...] | None = None
    """Data sets to evaluate on at the end, in this order; all of the task of ``data.dataset``.
    None: that data set alone. Span tasks tune the no-answer threshold on the first one and reuse
    it."""
    batch_size: int = Field(32, ge=1)
    """Global batch size of one pass, in examples, over all workers. Source: Clark et al. 2020,
    table 7."""
    max_batch_tokens: int | None = Field(None, ge=8)
    """Maximum size of a batch, in tokens with padding. A batch then holds rows of similar length,
    as many as fit, at most ``data.batch_size``. None: every batch has ``data.batch_size`` rows. Set
    it where long rows do not fit into memory."""
    epochs: float = Field(3.0, gt=0)
    """Number of epochs over the training examples; without effect where ``training.steps`` is
    given. 3 in ELECTRA, 2 for SQuAD, 10 for RTE and STS-B (Clark et al. 2020, table 7)."""
    class_weights: Literal["balanced"] | dict[str, float] | None = None
    """Factor of the loss on labels by class or tag. ``balanced``: rows / (labels * rows of the
    label), as in scikit-learn, so that rare labels count as much as frequent ones. A mapping: by
    label, 1 for others. None: 1 for all."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Share of the target of classes, tags and choices that is spread over all labels (Szegedy et
    al. 2016, section 7). 0: the label alone."""
    held_out_fold: tuple[NonNegativeInt, PositiveInt] | None = None
    """Fold that is left out of the training, from 0, and the number of folds that the examples are
    split into by their text. None: train on all. ``road teachers`` with ``num_folds`` sets it."""

    @property
    def trained_on(self) -> tuple[str, ...]:
        """Data sets that are trained on."""
        return (self.dataset,)

    @property
    def evaluated_on(self) -> tuple[str, ...]:
        """Data sets that are evaluated on at the end."""
        return self.evaluate_on or (self.dataset,)

    def splits(self) -> list[tuple[str, str, SourceConfig]]:
        """Return the data set, the split and the source of all that is trained and evaluated on."""
        dev = ((name, "dev", self) for name in self.evaluated_on)
        return [(self.dataset, "train", self), *dev]

    @property
    def unlabelled_rows(self) -> dict[str, tuple[str, ...]]:
        """Files and data sets of rows without labels by data set that is trained on; they need
        teachers."""
        return {}

    def learns_from(self, example: Example) -> bool:
        """Return True if ``example`` is trained on, that is, unless its fold is held out."""
        if self.held_out_fold is None:
            return True
        from road_ray.data.folds import fold_of

        held_out, num_folds = self.held_out_fold
        return fold_of(example, num_folds) != held_out


class StudentConfig(Config):
    """Layers of ``init`` that the trained model has; by default all."""

    layers: int | tuple[int, ...] | None = None
    """Number of layers that are kept, or their indices from 0, such as ``[0, 2, 4]``. The model is
    then a smaller one of the same family, which any program loads. None: all layers. Half of the
    layers halve the time of a prediction, but for embeddings and head."""
    layer_choice: Literal["even", "first", "last"] = "even"
    """Layers that a number in ``student.layers`` selects. ``even``: evenly spread from the first (3
    of 6: 0, 2, 4), as DistilBERT takes every second one (Sanh et al. 2019). ``first``: the lowest.
    ``last``: the highest."""

    def chosen(self, available: int) -> tuple[int, ...]:
        """Return the indices of the kept layers. Raises ``ConfigError`` for more than
        ``available``, for repeated indices and for none.
        """
        if self.layers is None:
            return tuple(range(available))
        if isinstance(self.layers, int):
            count = self.layers
            spread = {
                "even": [number * available // max(count, 1) for number in range(count)],
                "first": list(range(count)),
                "last": list(range(available - count, available)),
            }
            numbers = spread[self.layer_choice]
        else:
            numbers, count = list(self.layers), len(self.layers)
        in_range = 1 <= count <= available and all(0 <= number < available for number in numbers)
        if not in_range or numbers != sorted(set(numbers)):
            written = self.layers if isinstance(self.layers, int) else list(self.layers)
            raise ConfigError(
                f"student.layers = {written}: init has {available} layers\n"
                f"  allowed: 1 to {available}, or ascending indices from 0 to {available - 1}\n"
                "  fix: name fewer, or start from a deeper model; nothing was started"
            )
        return tuple(numbers)


ELECTRA_SMALL = OptimizerConfig(peak_lr=3e-4, layer_decay=0.8, weight_decay=0.0)


class FinetuneConfig(RunConfig):
    """Fine-tuning of one model on one data set. Source of the defaults: ELECTRA-Small, Clark et al.
    2020, table 7.
    """

    run_dir: Path = Path("runs/finetune")
    """Directory of the run: configuration, metrics, checkpoints and final model. The same command
    on the same directory resumes the run."""
    init: str = ""
    """Model to start from: a run directory, an ``hf/`` directory or a hub name. Required."""
    from_scratch: bool = False
    """Initialize the encoder with random weights, with the size and tokenizer of ``init``. Use it
    as the baseline that shows what pre-training gains."""
    keep_head: bool = True
    """Start from the head of ``init`` where it was trained on the same task, for example by ``road
    multitask``. False: always a new head."""
    label_map: dict[str, str | dict[str, str]] = Field({})
    """Label names of the head of ``init``, where it is kept, mapped to those of the task, such as
    ``{LABEL_0: negative}``. Empty: the names are equal but for case, spaces and hyphens."""
    student: StudentConfig = StudentConfig()
    """Layers of ``init`` that are kept, for a smaller model."""
    data: FinetuneDataConfig = FinetuneDataConfig()
    """Data set to train on, data sets to evaluate on, row length and batch size."""
    optimizer: OptimizerConfig = ELECTRA_SMALL
    """Optimizer and learning-rate schedule. The defaults are those of ELECTRA-Small: peak rate
    3e-4, layer decay 0.8, no weight decay (Clark et al. 2020, table 7). Base: 1e-4 and 0.8; Large:
    5e-5 and 0.9. Models of other families: 2e-5 to 5e-5 and 1 (Devlin et al. 2019)."""
    training: TrainingConfig = TrainingConfig()
    """Length of the training, evaluations and checkpoints. ``data.epochs`` sets the number of steps
    by default."""

    @property
    def named_teachers(self) -> dict[str, tuple[str, ...]]:
        """Entries of the teachers by data set; none here."""
        return {}

    def inputs(self) -> Inputs:
        return training_inputs(self)

    def without_effect(self) -> dict[str, str]:
        refused = super().without_effect()
        if not self.workers:
            reason = "a run without workers trains in this process, on no cluster"
            refused["address"] = f"{reason}\n    fix: workers=N for N workers, or leave it out"
        return refused


def training_inputs(config: Any) -> Inputs:
    """Return the local files that a supervised training follows from, by kind."""
    data, named = config.data, config.named_teachers
    more = (name for names in data.unlabelled_rows.values() for name in names)
    inputs: Inputs = {
        "init": model_files(config.init),
        "data": [
            *split_files(data, data.trained_on, "train"),
            *split_files(data, judged_names(config), "dev"),
            *unlabelled_files(data, more),
        ],
    }
    if not named:
        return inputs
    files = [path for names in named.values() for path in teacher_files(names)]
    return {**inputs, TEACHERS: files}


def judged_names(config: Any) -> list[str]:
    """Return the data sets whose dev splits a supervised training reads, each once."""
    names = list(config.data.evaluated_on)
    if config.training.evaluate_every_steps is not None:
        names += config.data.trained_on
    return list(dict.fromkeys(names))


class FinetuningsConfig(FinetuneConfig):
    """Fine-tuning with several seeds, of one data set or of each of a pool such as GLUE. Source of
    the defaults: ELECTRA-Small, Clark et al. 2020, table 7.
    """

    num_seeds: int = Field(1, ge=1)
    """Number of runs of each data set, with seeds ``seed``, ``seed`` + 1 and so on; metrics are
    their means. 1: a single run. ELECTRA reports medians of 10."""
    pool: dict[str, dict[str, Any]] = Field({})
    """Data sets to fine-tune on, each with the keys in which it differs from this configuration,
    such as ``{rte: {data.epochs: 10}}``. Those without files below the data root are left out, with
    a warning. Empty: ``data.dataset`` alone."""
    start_from: dict[str, str] = Field({})
    """Map from a data set of ``pool`` to another one whose model, of the same seed, it starts from,
    such as ``{rte: mnli}``. Empty: all start from ``init``."""
    max_concurrent: Free[int] = Field(0, ge=0)
    """Number of runs at the same time, each a Ray task of one core and ``gpus_per_worker`` GPUs. 0:
    one after another in this process. On a cluster at ``address``, its size is the limit."""

    def inputs(self) -> Inputs:
        return {}  # each fine-tuning records its own

    def without_effect(self) -> dict[str, str]:
        if self.num_seeds == 1 and not self.pool:
            return super().without_effect()
        return of_parallel_runs("finetune` with several seeds or data sets", self.max_concurrent)


class TeachersConfig(FinetuneConfig):
    """Ensemble of teachers: fine-tuning repeated with several seeds. Source of the defaults:
    ELECTRA-Small, Clark et al. 2020, table 7; three teachers as in ROaD part 1, section 5.
    """

    run_dir: Path = Path("runs/teachers")
    """Directory of the teachers, one sub-directory each, and of ``teachers.json``, which
    ``distillation.teachers`` accepts."""
    num_teachers: int = Field(3, ge=1)
    """Number of teachers, of each fold where there are folds; seeds are ``seed``, ``seed`` + 1 and
    so on. ROaD distils from three."""
    num_folds: int = Field(1, ge=1)
    """Number of folds of the training data. 1: every teacher trains on all of it. 2 or more:
    ``num_teachers`` are trained for each fold, without that fold, and a student learns every row
    from teachers that have not seen it. Use it where teachers are nearly always right on their own
    training data."""
    max_concurrent: Free[int] = Field(0, ge=0)
    """Number of teachers that train at the same time, each a Ray task of one core and
    ``gpus_per_worker`` GPUs. 0: one after another in this process. On a cluster at ``address``, its
    size is the limit."""

    def without_effect(self) -> dict[str, str]:
        return of_parallel_runs("teachers", self.max_concurrent)
