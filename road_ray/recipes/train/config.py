"""Configuration of the supervised verbs: ``finetune``, ``teachers``, ``distill``, ``multitask``.

``TrainConfig`` and ``TrainDataConfig`` have what they share; ``prepare.py``, ``mixture.py`` and
``train.py`` consume them. ``FinetuneConfig`` trains on one data set, ``MultitaskConfig`` on a
mixture; ``FinetuningsConfig`` and ``TeachersConfig`` consist of
several runs, see ``recipes/several_runs.py``.
"""

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, field_validator

from road_ray.config import Config
from road_ray.config.base import Free
from road_ray.data.config import Sampler, SourceConfig
from road_ray.errors import ConfigError
from road_ray.models.config import AttentionConfig
from road_ray.recipes.config import RunConfig, check_inner_keys, of_parallel_runs
from road_ray.recipes.run_directory.input_files import (
    TEACHERS,
    Inputs,
    model_files,
    split_files,
    unlabelled_files,
)
from road_ray.recipes.train.teaching_config import (
    DistillationConfig,
    MixTeachingConfig,
    WeightingConfig,
    resolve_teachers,
    teacher_files,
)
from road_ray.training.config import OptimizerConfig, TrainingConfig


class TrainDataConfig(SourceConfig):
    """Batches of a supervised training; classes below it have the data sets."""

    batch_size: int = Field(32, ge=1)
    """Global batch size of one pass, in examples, over all workers. Source: Clark et al. 2020,
    table 7."""

    @property
    def trained_on(self) -> tuple[str, ...]:
        """Data sets that are trained on."""
        return ()

    @property
    def evaluated_on(self) -> tuple[str, ...]:
        """Data sets that are evaluated on at the end."""
        return self.trained_on

    @property
    def unlabelled_rows(self) -> dict[str, tuple[str, ...]]:
        """Files and data sets of rows without labels by data set that is trained on; they need
        teachers.
        """
        return {}

    def splits(self) -> list[tuple[str, str, SourceConfig]]:
        """Return the data set, the split and the source of all that is trained and evaluated on."""
        train = [(name, "train", self) for name in self.trained_on]
        return [*train, *((name, "dev", self) for name in self.evaluated_on)]


class FinetuneDataConfig(TrainDataConfig):
    """Data set to train on, data sets to evaluate on, and the batches."""

    dataset: str = "sst2"
    """Data set to train on, of the catalogue (``road data list``) or of ``data.sets``."""
    evaluate_on: tuple[str, ...] | None = None
    """Data sets to evaluate on at the end, all of the task of ``data.dataset``. None: that data set
    alone. Thresholds and temperature are fitted to its dev split, if it is named, and used on
    all."""
    epochs: float = Field(3.0, gt=0)
    """Number of epochs over the training examples; without effect where ``training.steps`` is
    given. 3 in ELECTRA, 2 for SQuAD, 10 for RTE and STS-B (Clark et al. 2020, table 7)."""
    class_weights: Literal["balanced"] | dict[str, NonNegativeFloat] | None = None
    """Factor of the loss by class or tag; of several labels, of the rows that have the label.
    ``balanced``: rows / (labels * rows of the label), as in scikit-learn, so that rare labels count
    as much as frequent ones; of several labels, rows without the label / rows with it. A mapping:
    by label, 1 for others. None: 1 for all."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Share of the target of classes, tags and choices that is spread over all labels (Szegedy et
    al. 2016, section 7); each of several labels has the target 1 - s / 2 or s / 2. 0: the label
    alone."""
    held_out_fold: tuple[NonNegativeInt, PositiveInt] | None = None
    """Fold that is left out of the training, from 0, and the number of folds that the examples are
    split into by their text. None: train on all. ``road teachers`` with ``num_folds`` sets it."""

    @property
    def trained_on(self) -> tuple[str, ...]:
        return (self.dataset,)

    @property
    def evaluated_on(self) -> tuple[str, ...]:
        return self.evaluate_on or (self.dataset,)


class DistillDataConfig(FinetuneDataConfig):
    """Data set to train on, rows without labels, data sets to evaluate on, and the batches."""

    unlabelled: tuple[str, ...] = ()
    """Files and data sets whose rows are trained on without labels, behind those of
    ``data.dataset``, and ``rest``, its own rows beyond ``data.max_rows``. The teachers alone teach
    them, with equal weights unless ``weighting.rule`` is ``entropy``, which reads no labels. JSONL,
    CSV, TSV and Parquet have the text columns of the data set or ``text`` and ``text_pair``,
    ``question`` and ``context``; ``.txt`` has one text a line; ``.json`` is SQuAD's layout. Labels
    that are there are ignored; ``data.max_rows`` does not count these rows. Empty: none."""

    @property
    def unlabelled_rows(self) -> dict[str, tuple[str, ...]]:
        return {self.dataset: self.unlabelled}


class MultitaskDataConfig(TrainDataConfig):
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

    @property
    def trained_on(self) -> tuple[str, ...]:
        return self.datasets

    @property
    def unlabelled_rows(self) -> dict[str, tuple[str, ...]]:
        return self.unlabelled


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
    weights: dict[str, NonNegativeFloat] = Field({})
    """Factor of the loss by data set or task. Empty: 1 for all, as in ROaD."""


class StudentConfig(Config):
    """Layers of ``init`` that the trained model has; by default all."""

    layers: int | tuple[int, ...] | None = None
    """Number of layers that are kept, evenly spread from the first (3 of 6: 0, 2, 4), as DistilBERT
    takes every second one (Sanh et al. 2019), or their indices from 0, such as ``[0, 1, 2]``. The
    model is then a smaller one of the same family, which any program loads. None: all layers. Half
    of the layers halve the time of a prediction, but for embeddings and head."""

    def chosen(self, available: int) -> tuple[int, ...]:
        """Return the indices of the kept layers. Raises ``ConfigError`` for more than
        ``available``, for repeated indices and for none.
        """
        if self.layers is None:
            return tuple(range(available))
        numbers = self.layers
        if isinstance(numbers, int):
            numbers = tuple(number * available // max(numbers, 1) for number in range(numbers))
        in_order = list(numbers) == sorted(set(numbers))
        if not numbers or not in_order or not 0 <= numbers[0] <= numbers[-1] < available:
            written = self.layers if isinstance(self.layers, int) else list(self.layers)
            raise ConfigError(
                f"student.layers = {written}: init has {available} layers\n"
                f"  allowed: 1 to {available}, or ascending indices from 0 to {available - 1}\n"
                "  fix: name fewer, or start from a deeper model; nothing was started"
            )
        return numbers


ELECTRA_SMALL = OptimizerConfig(peak_lr=3e-4, layer_decay=0.8, weight_decay=0.0)


class TrainConfig(RunConfig):
    """Supervised training of one model, on one data set or a mixture."""

    init: str = ""
    """Model to start from: a run directory, an ``hf/`` directory or a hub name. Required."""
    data: TrainDataConfig = TrainDataConfig()
    """Data sets, row length and batch size."""
    encoder: AttentionConfig = AttentionConfig()
    """Attention implementation of the model that is trained."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Optimizer and learning-rate schedule."""
    training: TrainingConfig = TrainingConfig()
    """Length of the training, evaluations and checkpoints."""
    calibrate: bool = False
    """Fit a temperature on the dev split of each task of classes, several labels or choices (Guo et
    al. 2017) and store it with the model. `road predict`, `road serve` and `road_ray.load` divide
    the logits by it; the weights, so the probabilities of plain transformers, stay as they are.
    False: none."""

    @property
    def named_teachers(self) -> dict[str, tuple[str, ...]]:
        """Entries of the teachers by data set."""
        return {}

    @property
    def total_teachers(self) -> int:
        """Number of teachers that are models, over all data sets and folds."""
        return sum(len(resolve_teachers(x).models) for x in self.named_teachers.values())

    @property
    def dev_names(self) -> list[str]:
        """Data sets whose dev splits are read, each once."""
        names = list(self.data.evaluated_on)
        if self.training.evaluate_every_steps is not None:
            names += self.data.trained_on
        return list(dict.fromkeys(names))

    def inputs(self) -> Inputs:
        more = [name for names in self.data.unlabelled_rows.values() for name in names]
        inputs: Inputs = {
            "init": model_files(self.init),
            "data": [
                *split_files(self.data, self.data.trained_on, "train"),
                *split_files(self.data, self.dev_names, "dev"),
                *(unlabelled_files(self.data, more) if more else []),
                *([self.data.corrections] if self.data.corrections else []),
            ],
        }
        files = [path for names in self.named_teachers.values() for path in teacher_files(names)]
        return {**inputs, TEACHERS: files} if self.named_teachers else inputs


class FinetuneConfig(TrainConfig):
    """Fine-tuning of one model on one data set. Source of the defaults: ELECTRA-Small, Clark et al.
    2020, table 7.
    """

    run_dir: Path = Path("runs/finetune")
    """Directory of the run: configuration, metrics, checkpoints and final model. The same command
    on the same directory resumes the run."""
    init_weights: Literal["all", "encoder", "none"] = "all"
    """Weights of ``init`` to start from. ``all``: also its head, where it was trained on the same
    task, for example by ``road multitask``. ``encoder``: with a new head. ``none``: random weights
    with the size and tokenizer of ``init``, the baseline that shows what pre-training gains."""
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

    keys_of_workers: ClassVar = (*RunConfig.keys_of_workers, "address")
    """Without workers there is no cluster to join either."""


class FinetuningsConfig(FinetuneConfig):
    """Fine-tuning with several seeds, of one data set or of each of a pool such as GLUE. Source of
    the defaults: ELECTRA-Small, Clark et al. 2020, table 7.
    """

    num_seeds: int = Field(1, ge=1)
    """Number of runs of each data set, with seeds ``seed``, ``seed`` + 1 and so on; metrics are
    their means. 1: a single run. ELECTRA reports medians of 10."""
    pool: dict[str, dict[str, Any]] = Field({})
    """Data sets to fine-tune on, each with the keys in which it differs from this configuration,
    such as ``{rte: {data.epochs: 10}}``. With ``init`` one starts from the model, of the same
    seed, of another one of the pool: ``{rte: {init: mnli}}``. Those without files below the data
    root are left out, with a warning. Empty: ``data.dataset`` alone."""
    max_concurrent: Free[int] = Field(0, ge=0)
    """Number of runs at the same time, each a Ray task of one core and ``gpus_per_worker`` GPUs. 0:
    one after another in this process. On a cluster at ``address``, its size is the limit."""

    @field_validator("pool")
    @classmethod
    def _one_seed_for_all(cls, pool: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        check_inner_keys("pool", *pool.values())
        return pool

    def inputs(self) -> Inputs:
        return {}  # each fine-tuning records its own

    def without_effect(self) -> dict[str, str]:
        if self.num_seeds == 1 and not self.pool:
            return super().without_effect()
        return of_parallel_runs(self.max_concurrent)


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
        return of_parallel_runs(self.max_concurrent)


class DistillConfig(FinetuneConfig):
    """Fine-tuning of a student with teachers. Source of the defaults: ELECTRA-Small, Clark et al.
    2020, table 7, and ROaD part 1, Algorithm 2.
    """

    run_dir: Path = Path("runs/distill")
    """Directory of the run: configuration, metrics, checkpoints and final model. The same command
    on the same directory resumes the run."""
    data: DistillDataConfig = DistillDataConfig()
    """Data set to train on, rows without labels, data sets to evaluate on, row length and batch
    size."""
    distillation: DistillationConfig = DistillationConfig()
    """Teachers, distillation loss and hosts of the teachers."""
    weighting: WeightingConfig = WeightingConfig()
    """Weights of the teachers in their mean."""

    keys_of_workers: ClassVar = RunConfig.keys_of_workers
    """``address`` is that of the teachers' cluster too."""

    @property
    def named_teachers(self) -> dict[str, tuple[str, ...]]:
        return {self.data.dataset: self.distillation.teachers}


class MultitaskConfig(TrainConfig):
    """Multi-task pre-training of one encoder on a mixture of data sets; ROaD starts from the
    ELECTRA discriminator. Source of the defaults: ROaD-Large, ROaD part 1, section 3.5.
    """

    run_dir: Path = Path("runs/multitask")
    """Directory of the run: configuration, metrics, checkpoints and final models. The same command
    on the same directory resumes the run."""
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
        entries = self.distillation.teachers.items()
        named = {name: (e,) if isinstance(e, str) else e for name, e in entries}
        return {name: named[name] for name in self.data.datasets if named.get(name)}
