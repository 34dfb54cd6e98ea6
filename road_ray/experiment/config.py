"""Configuration of ``road reproduce``: an experiment, which is arms that differ in a few keys, and
the keys that all arms share. ``catalogue/`` has the published ones, one YAML file each, as a user
writes his own. ``expand.py`` consumes it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from road_ray.config import Config
from road_ray.config.base import Extends, Free
from road_ray.config.yaml_files import read_yaml
from road_ray.data.config import CorpusConfig
from road_ray.errors import did_you_mean
from road_ray.models.config import EncoderConfig
from road_ray.recipes.config import Combination, RunConfig, check_inner_keys, of_parallel_runs
from road_ray.recipes.pretraining.config import GeneratorConfig, PretrainConfig
from road_ray.recipes.train.config import (
    ELECTRA_SMALL,
    DistillDataConfig,
    MultitaskConfig,
    StudentConfig,
)
from road_ray.recipes.train.teaching_config import DistillationConfig, WeightingConfig
from road_ray.training.config import OptimizerConfig, TrainingConfig

CATALOGUE = {path.stem: path for path in sorted(Path(__file__).parent.glob("catalogue/*.yaml"))}
DEFAULT = "table5"
OWN = "own"  # name of an experiment that is not of the catalogue


# What the arms of a pre-training share: two layers of width 128 and short rows. Our choice.
LAPTOP = PretrainConfig(
    data=CorpusConfig(vocab_size=4096, max_length_tokens=64, batch_size=32),
    encoder=EncoderConfig(
        layers=2, hidden_size=128, heads=2, intermediate_size=512, dropout=0.0, initializer_std=0.06
    ),
    generator=GeneratorConfig(scale=0.5),
    optimizer=OptimizerConfig(peak_lr=1e-3, betas=(0.9, 0.98), bias_correction=True),
    training=TrainingConfig(steps=1000, log_every_steps=100),
)


class StageConfig(Config):
    """Training of an arm before the ones that score it, once for each seed."""

    verb: Literal["pretrain", "multitask"] = "pretrain"
    """Verb of the training, and section of its keys that all arms share."""
    keys: dict[str, Any] = Field({})
    """Keys of the verb that this stage changes, by dotted name."""
    teachers: str = ""
    """Name in ``experiment.ensembles`` of the teachers that each data set of a mixture has. Empty:
    none."""
    batch_factor: int = Field(1, ge=1)
    """Factor of the batch size of a mixture."""


class ArmConfig(Config):
    """One row of the table: stages, and trainings that score it on each data set."""

    about: str = ""
    """Title in tables. Empty: the name of the arm."""
    keys: dict[str, Any] = Field({})
    """Keys of ``road finetune``, or with teachers of ``road distill``, that the arm changes, by
    dotted name."""
    stages: tuple[StageConfig, ...] = ()
    """Trainings before the ones that score the arm, each from the model of the one before."""
    start_from: str = ""
    """Arm whose last model, of the same seed, this arm starts from. Empty: ``init``."""
    teachers: str = ""
    """Name in ``experiment.ensembles`` of the teachers of the arm. Empty: no distillation."""
    members: int | None = Field(None, ge=1)
    """Number of its teachers, the first ones, that the student has. None: all."""
    combine: Combination | None = None
    """Ways to join its teachers without a student: ``ensemble`` (mean of logits), ``uniform`` or
    ``greedy`` (mean of weights). The teachers of every arm are then of its own seed. None: train a
    student."""
    unlabelled: bool = False
    """True: rows without labels follow the labelled ones, those of ``data.unlabelled``, or else the
    rest."""
    as_many_updates: bool = False
    """True: as many updates as an arm with rows without labels makes."""
    layers: float = Field(1.0, gt=0, le=1)
    """Fraction of the layers of ``init`` that the student keeps."""
    share: float = Field(1.0, gt=0)
    """Share of the budget in ``flops``, divided evenly among the stages."""
    against: tuple[str, ...] = ()
    """Arms that it is tested against. Empty: the first arm."""
    published: dict[str, float] = Field({})
    """Published figures, by ``data set/metric``."""


_OF_COMBINED = {"about", "teachers", "combine", "against", "published"}  # nothing is trained


class ExperimentConfig(Config):
    """Arms that differ in one thing each, and what is special to them."""

    about: str = ""
    """Title of tables and pages: the things that are compared. Empty: the name of ``run_dir``."""
    source: str = "no published table"
    """Paper that the published figures are of."""
    equal: Literal["flops", "steps"] | None = None
    """Cost that all arms of a pre-training have in common: ``flops`` or, with as many steps as
    those buy the first arm, ``steps``. None: every arm starts from ``init``."""
    targets: dict[str, dict[str, Any]] = Field({})
    """Data sets that score the arms, each with the keys in which it differs, where neither
    ``targets`` nor ``data.dataset`` names others."""
    ensembles: dict[str, dict[str, Any]] = Field({})
    """Ensembles of teachers by name, each with the keys of ``road teachers`` that it changes."""
    arms: dict[str, ArmConfig] = Field({})
    """Arms by name. The first is what the others are tested against. Required."""

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        for name in (*self.arms, *self.ensembles):
            if "/" in name or name in ("", ".", ".."):
                raise ValueError(f"{name!r}: an arm or an ensemble is named as its directory is")
        for name, keys in self.ensembles.items():  # a seed of their own makes other teachers
            check_inner_keys(f"ensembles: {name}", keys.keys() - {"seed"})
        for name, arm in self.arms.items():
            check_inner_keys(f"arms: {name}", arm.keys, *(stage.keys for stage in arm.stages))
            if self.equal and not arm.stages and not arm.start_from:
                raise ValueError(f"arms: {name}.stages: needed where equal = {self.equal}")
            _known(f"arms: {name}.against", arm.against, self.arms)
            if len({name, *arm.against}) <= len(arm.against):
                raise ValueError(f"arms: {name}.against: allowed: other arms, each once")
            beside = arm.model_dump(exclude_defaults=True).keys()
            if arm.combine and not (arm.teachers and beside <= _OF_COMBINED):
                raise ValueError(
                    f"arms: {name}.combine = {arm.combine}: needs teachers, and trains nothing\n"
                    "    allowed beside it: about, teachers, against, published"
                )
            named = [arm.teachers, *(stage.teachers for stage in arm.stages)]
            _known(f"arms: {name}.teachers", filter(None, named), self.ensembles)
            path = [name]
            while before := self.arms[path[-1]].start_from:
                _known(f"arms: {path[-1]}.start_from", [before], self.arms)
                if self.arms[before].combine == "ensemble":
                    raise ValueError(f"arms: {path[-1]}.start_from = {before}: leaves no model")
                if before in path:
                    raise ValueError(f"arms: a cycle of start_from: {' -> '.join([*path, before])}")
                path.append(before)
        return self


def _known(key: str, names: Iterable[str], allowed: Collection[str]) -> None:
    for name in names:
        if name not in allowed:
            raise ValueError(
                f"{key} = {name}: there is none of that name{did_you_mean(name, allowed)}\n"
                f"    allowed: {', '.join(allowed) or 'none'}"
            )


class ReproduceConfig(RunConfig):
    """Published comparison repeated at the user's scale, or an experiment of the user's own: arms,
    seeds, data and budget. All scales are our choice. ``road reproduce NAME`` sets ``comparison``.
    """

    run_dir: Path = Path("runs/reproduce")
    """Directory of all arms, of ``table.json``, of the report and of the metrics."""

    comparison: str = Field(DEFAULT, json_schema_extra={"enum": [*CATALOGUE, OWN]})
    """Comparison to repeat. Of pre-training: ``table5``, ``generator_size``, ``tying``,
    ``algorithms``, ``fractions`` (Clark et al. 2020) and ``successors``. From any ``init``:
    ``road_distillation`` and ``road_multitask`` (ROaD's tables), ``compression``, ``low_resource``,
    ``noisy_labels``, ``domain``, ``soup``. ``own``: the arms of ``experiment`` alone."""
    experiment: ExperimentConfig = ExperimentConfig()
    """Arms of an experiment of one's own, as docs/guides/comparisons.md describes them. They follow
    those of ``comparison`` where both are given."""
    num_seeds: Annotated[int, Extends()] = Field(3, ge=1)
    """Number of runs of each arm, with seeds ``seed``, ``seed`` + 1 and so on, compared in pairs.
    Our choice; a small difference needs 5 to 10."""
    arms: Annotated[tuple[str, ...], Extends()] = ()
    """Arms to run, with those that they are tested against. Empty: all arms of the comparison."""
    max_concurrent: Free[int] = Field(0, ge=0)
    """Number of arms that run at the same time, each a Ray task of one core and ``gpus_per_worker``
    GPUs. 0: one after another in this process."""

    init: str = ""
    """Model that every arm and teacher starts from: a run directory, an ``hf/`` directory or a hub
    name. Required but for comparisons of pre-training, which take none."""
    data: DistillDataConfig = DistillDataConfig(dataset="")
    """Data set that all arms train on, rows without labels, row length and batch size. An empty
    ``data.dataset`` means ``targets`` of the comparison."""
    targets: dict[str, dict[str, Any]] | None = None
    """Data sets that every arm is fine-tuned on in turn, each with the keys in which it differs,
    such as ``{rte: {data.epochs: 10}}``. None: ``data.dataset``, else those of the comparison. An
    arm of a comparison of pre-training has the mean of their first metrics times 100 as its score,
    like the GLUE score."""
    optimizer: OptimizerConfig = ELECTRA_SMALL
    """Optimizer and learning-rate schedule of fine-tuning and of teachers. The defaults are those
    of ``road finetune``."""
    training: TrainingConfig = TrainingConfig()
    """Length of each fine-tuning, and its checkpoints."""
    student: StudentConfig = StudentConfig()
    """Layers of ``init`` that students keep; teachers keep all. ``compression`` sets
    ``student.layers`` itself."""
    distillation: DistillationConfig = DistillationConfig(host="process", num_teachers=3)
    """Distillation loss and hosts of the teachers. The comparison trains the teachers and keeps
    their answers in a store below ``run_dir``. Only of comparisons with teachers."""
    weighting: WeightingConfig = WeightingConfig()
    """Options of the weighting rules; arms choose the rule. Only of comparisons with teachers."""
    multitask: MultitaskConfig = MultitaskConfig()
    """Multi-task stages of the arms, such as those of ``road_multitask``; arms change ``mixing``
    and the teachers."""
    pretrain: PretrainConfig = LAPTOP
    """Pre-training stages of the arms. Of comparisons at equal cost, the number of steps and the
    warm-up, a tenth of them, follow from ``flops``. Of others, every stage starts from ``init``,
    and an empty ``data.corpus`` is the text of all training rows of the first target."""
    flops: float = Field(6e13, gt=0)
    """Budget of the pre-training of each arm, in floating-point operations as the paper counts
    them. Comparisons at equal steps take the steps that it buys the first arm. Our choice for a
    laptop; ELECTRA-Small has 1.3e18. Only of comparisons of pre-training."""

    @property
    def of_pretraining(self) -> bool:
        """True for a comparison of pre-trainings."""
        return self.experiment.equal is not None

    def without_effect(self) -> dict[str, str]:
        arms = self.experiment.arms.values()
        stages = [stage for arm in arms for stage in arm.stages]
        verbs = {stage.verb for stage in stages}
        unused = {"pretrain", "multitask"} - verbs | {"init" if self.of_pretraining else "flops"}
        if not any(arm.teachers for arm in arms) and not any(stage.teachers for stage in stages):
            unused |= {"distillation", "weighting"}
        used = {*type(self).model_fields}.difference(unused, RunConfig.model_fields)
        reason = (
            f"comparison {self.comparison} does not use it\n"
            f"    allowed: {', '.join(sorted(used))}, and the keys of every run\n"
            "    fix: leave it out"
        )
        refused = dict.fromkeys(sorted(unused), reason)
        return of_parallel_runs(self.max_concurrent) | refused

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        _known("comparison", [self.comparison], (*CATALOGUE, OWN))
        if not self.experiment.arms:
            raise ValueError(
                "experiment.arms: an experiment of your own needs arms\n"
                "    allowed: names, each with the keys that the arm changes: "
                "{slow: {keys: {optimizer.peak_lr: 1e-5}}, fast: {}}"
            )
        check_inner_keys("targets", *(self.targets or self.experiment.targets).values())
        _known("arms", self.arms, self.experiment.arms)
        return self


def comparison_named(
    path: Path | None, overrides: Sequence[str] | Mapping[str, Any], keys: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of the comparison that a file, overrides and keys ask for, with its name:
    ``own`` if they have arms only. An unknown one has no others.
    """
    values = read_yaml(path).values if path else {}
    if not isinstance(overrides, Mapping):
        parts = [text.partition("=") for text in overrides]
        overrides = {name.strip(): value.strip().strip("'\"") for name, _, value in parts}
    values |= {**overrides, **keys}
    name = OWN if any(key.split(".")[0] == "experiment" for key in values) else DEFAULT
    if values.get("comparison") is not None:  # null is refused as a value of the key
        name = str(values["comparison"])
    written = read_yaml(CATALOGUE[name]).values if name in CATALOGUE else {}
    return written | {"comparison": name}
