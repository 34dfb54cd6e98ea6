"""Configuration of ``road reproduce``.

``pretraining_comparison.py`` consumes it for comparisons of pre-training, ``finetuning_plan.py``
for all others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from road_ray.data.config import CorpusConfig
from road_ray.errors import did_you_mean
from road_ray.models.config import EncoderConfig
from road_ray.recipes.comparison.finetuning_arms import COMPARISONS
from road_ray.recipes.comparison.pretraining_arms import COMPARISONS as OF_PRETRAINING
from road_ray.recipes.config import RunConfig, of_parallel_runs
from road_ray.recipes.distillation.config import (
    DistillationConfig,
    DistillDataConfig,
    WeightingConfig,
)
from road_ray.recipes.finetuning.config import (
    FinetuneConfig,
    FinetuneDataConfig,
    StudentConfig,
)
from road_ray.recipes.multitask.config import MultitaskConfig, MultitaskDataConfig
from road_ray.recipes.pretraining.config import GeneratorConfig, PretrainConfig, laptop_scale
from road_ray.training.config import OptimizerConfig, TrainingConfig

_ALL = (*OF_PRETRAINING, *COMPARISONS)


class ReproduceDataConfig(DistillDataConfig):
    """Data set that all arms train on, rows without labels, row length and batch size."""

    dataset: str = ""
    """Data set to train on, of the catalogue or of ``data.sets``. Empty: that of the comparison,
    ``squad_v2`` for ``road_distillation`` (evaluated on ``newsqa`` too), ``amazon`` for ``domain``,
    else ``sst2``; ``road_multitask`` has the data sets of ``targets``."""
    max_rows: int | None = Field(None, ge=1)
    """Number of labelled training examples, drawn by a shuffle that is the same for all seeds.
    None: that of the comparison (``low_resource`` 1,000, ``noisy_labels`` and ``domain`` 2,000,
    ``compression`` 5,000), else all."""
    max_unlabelled_rows: int | None = Field(None, ge=1)
    """Number of training examples whose labels are removed, for arms with rows without labels;
    they are drawn from those beyond ``data.max_rows``. None: all of them. Without effect where
    ``data.unlabelled`` names files."""


def continued_scale() -> PretrainConfig:
    """Return the further pre-training of comparison ``domain``: a generator of the width of
    ``init``, so that it shares the trained embeddings, and half its depth. Our choice.
    """
    return PretrainConfig(
        data=CorpusConfig(max_length_tokens=128, batch_size=32),
        encoder=EncoderConfig(family="init"),
        generator=GeneratorConfig(scale=1.0, depth=0.5),
        optimizer=OptimizerConfig(peak_lr=1e-4, warmup_steps=100),
        training=TrainingConfig(steps=1000, log_every_steps=100),
    )


def mixture_scale() -> MultitaskConfig:
    """Return the mixture of comparison ``road_multitask``: the data sets of ROaD's nine with public
    files in common use. Our choice.
    """
    return MultitaskConfig(
        data=MultitaskDataConfig(
            datasets=("qasrl", "qazre", "mnli", "snli", "amazon", "qqp"), batch_size=32
        ),
        optimizer=OptimizerConfig(
            peak_lr=3e-4, layer_decay=0.75, warmup_steps=100, schedule="warmup_then_decay"
        ),
        training=TrainingConfig(steps=1000, log_every_steps=100),
    )


class ReproduceConfig(RunConfig):
    """Published comparison repeated at the user's scale: arms, seeds, data and budget. All scales
    are our choice. ``road reproduce NAME`` sets ``comparison``.
    """

    run_dir: Path = Path("runs/reproduce")
    """Directory of all arms, of ``table.json`` (pre-training: ``comparison.md``), of the report and
    of the metrics."""
    extensible: ClassVar[frozenset[str]] = frozenset({"num_seeds", "arms"})
    """As in ``RunConfig``."""

    comparison: str = Field("table5", json_schema_extra={"enum": list(_ALL)})
    """Comparison to repeat. Of pre-training: ``table5``, ``generator_size``, ``tying``,
    ``algorithms``, ``fractions`` (Clark et al. 2020) and ``successors``. From any ``init``:
    ``road_distillation`` and ``road_multitask`` (ROaD's tables), ``compression``, ``low_resource``,
    ``noisy_labels``, ``domain``."""
    num_seeds: int = Field(3, ge=1)
    """Number of runs of each arm, with seeds ``seed``, ``seed`` + 1 and so on, compared in pairs.
    Our choice; a small difference needs 5 to 10."""
    arms: tuple[str, ...] = ()
    """Arms to run, with those that they are tested against. Empty: all arms of the comparison."""
    max_concurrent: int = Field(0, ge=0)
    """Number of arms that run at the same time, each a Ray task of one core and ``gpus_per_worker``
    GPUs. 0: one after another in this process."""
    timeout_seconds: float = Field(7 * 86400.0, gt=0)
    """Time limit of all parallel arms together, in seconds; without effect where ``max_concurrent``
    is 0. 7 days by default. Our choice."""

    init: str = ""
    """Model that every arm and teacher starts from: a run directory, an ``hf/`` directory or a hub
    name. Required but for comparisons of pre-training, which take none."""
    data: ReproduceDataConfig = ReproduceDataConfig()
    """Data set, rows without labels, row length and batch size of all arms. Not of comparisons of
    pre-training."""
    targets: dict[str, dict[str, Any]] | None = None
    """Data sets that every arm is fine-tuned on in turn, each with the keys in which it differs,
    such as ``{rte: {data.epochs: 10}}``. None: those of ``road_multitask``, else ``data.dataset``
    alone. Not of comparisons of pre-training."""
    optimizer: OptimizerConfig = OptimizerConfig(peak_lr=3e-4, layer_decay=0.8, weight_decay=0.0)
    """Optimizer and learning-rate schedule of fine-tuning and of teachers. The defaults are those
    of ``road finetune``. Not of comparisons of pre-training."""
    training: TrainingConfig = TrainingConfig()
    """Length of each fine-tuning, and its checkpoints. Not of comparisons of pre-training."""
    student: StudentConfig = StudentConfig()
    """Layers of ``init`` that students keep; teachers keep all. ``compression`` sets
    ``student.layers`` itself. Not of comparisons of pre-training."""
    distillation: DistillationConfig = DistillationConfig(host="process", num_teachers=3)
    """Distillation loss and hosts of the teachers. The comparison trains the teachers and keeps
    their answers in a store below ``run_dir``. Not of comparisons of pre-training."""
    weighting: WeightingConfig = WeightingConfig()
    """Options of the weighting rules; arms choose the rule. Not of comparisons of pre-training."""
    multitask: MultitaskConfig = mixture_scale()
    """Multi-task stage of ``road_multitask``; arms change ``mixing`` and the teachers."""
    continued: PretrainConfig = continued_scale()
    """Further pre-training of ``domain``; ``continued.data.corpus`` is the text of the training
    split of ``data.dataset`` unless ``domain_text`` names another."""
    domain_text: str | None = None
    """Text for further pre-training in ``domain``: a file or directory, or ``hub:NAME``. None: the
    training texts of ``data.dataset``, all rows."""

    flops: float = Field(6e13, gt=0)
    """Budget of the pre-training of each arm, in floating-point operations as the paper counts
    them. Comparisons at equal steps take the steps that it buys the first arm. Our choice for a
    laptop; ELECTRA-Small has 1.3e18. Only of comparisons of pre-training."""
    pretrain: PretrainConfig = laptop_scale()
    """Pre-training that all arms share; each arm changes a few keys. The number of steps and the
    warm-up, a tenth of them, follow from ``flops``. Only of comparisons of pre-training."""
    probe: FinetuneConfig = FinetuneConfig(
        data=FinetuneDataConfig(max_length_tokens=64, max_rows=20_000, max_judged_rows=4000),
        training=TrainingConfig(steps=600, log_every_steps=200),
    )
    """Fine-tuning that scores an arm, repeated on each data set of ``probe_on``. Only of
    comparisons of pre-training."""
    probe_on: tuple[str, ...] = Field(("sst2", "qqp", "mnli", "cola"), min_length=1)
    """Data sets that score an arm: the score is the mean of their first metrics times 100, like the
    GLUE score. Only of comparisons of pre-training. Our choice."""
    root: str | None = None
    """Directory of corpus and data sets where ``pretrain.data.root`` and ``probe.data.root`` are
    not given. None: the environment variable ``ROAD_DATA``. Only of comparisons of pre-training."""

    def without_effect(self) -> dict[str, str]:
        return of_parallel_runs("reproduce", self.max_concurrent)

    @property
    def of_pretraining(self) -> bool:
        """True for a comparison of pre-training objectives."""
        return self.comparison in OF_PRETRAINING

    @model_validator(mode="after")
    def _of_one_comparison(self) -> Self:
        if self.comparison not in _ALL:
            hint = did_you_mean(self.comparison, _ALL)
            raise ValueError(
                f"comparison = {self.comparison}: no such comparison{hint}; "
                f"allowed: {', '.join(_ALL)}"
            )
        unused = _unused(self)
        if given := [name for name in unused if getattr(self, name) != _default(name)]:
            used = sorted(set(type(self).model_fields) - set(unused) - set(RunConfig.model_fields))
            raise ValueError(
                f"{given[0]}: comparison {self.comparison} does not use it\n"
                f"    allowed: {', '.join(used)}, and the keys of every run\n"
                f"    fix: leave {given[0]} out"
            )
        if not self.of_pretraining:
            known = [arm.name for arm in COMPARISONS[self.comparison].arms]
            if unknown := [name for name in self.arms if name not in known]:
                hint = did_you_mean(unknown[0], known)
                raise ValueError(
                    f"arms: {self.comparison} has no arm {unknown[0]}{hint}"
                    f"\n    allowed: {', '.join(known)}"
                )
        return self


class ArmConfig(RunConfig):
    """One arm of a comparison of pre-training with one seed. ``pretraining_comparison.py`` makes
    it; no file holds one.
    """

    stages: tuple[PretrainConfig, ...]
    """Pre-trainings of the arm, each from the model of the one before."""
    probes: tuple[FinetuneConfig, ...]
    """Fine-tunings that score the arm, one for each data set."""


def _unused(config: ReproduceConfig) -> list[str]:
    """Return the fields that the comparison does not use."""
    of_pretraining = ["flops", "pretrain", "probe", "probe_on", "root"]
    if not config.of_pretraining:
        stages = {"road_multitask": ["multitask"], "domain": ["continued", "domain_text"]}
        used = stages.get(config.comparison, [])
        every = [name for names in stages.values() for name in names]
        return of_pretraining + [name for name in every if name not in used]
    fields = [*ReproduceConfig.model_fields]
    return ["arms", *fields[fields.index("init") : fields.index("flops")]]


def _default(name: str) -> Any:
    return ReproduceConfig.model_fields[name].get_default(call_default_factory=True)
