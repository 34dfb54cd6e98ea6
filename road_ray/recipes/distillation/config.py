"""Configuration of `road distill`, and of teachers wherever a recipe has them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from road_ray.config import Config
from road_ray.distillation.schedule import Shape, schedule
from road_ray.errors import ConfigError, did_you_mean
from road_ray.models.config import Precision
from road_ray.recipes.distillation.teacher_list import num_folds, teacher_files
from road_ray.recipes.finetuning.config import FinetuneConfig
from road_ray.recipes.inputs import TEACHERS, Inputs

if TYPE_CHECKING:
    pass


class MatchingConfig(Config):
    """What a student learns besides from inside one teacher, which then also lives in the student's
    process: states are a hundred times the bytes of logits. Source: ROaD part 2, section 4.3.
    """

    hidden_weight: float = Field(0.0, ge=0)
    """Of the error of the hidden states; ROaD: no gain."""
    attention_weight: float = Field(0.0, ge=0)
    """Of that of the attention maps; slower attention."""
    layers: Literal["uniform", "last"] | tuple[tuple[int, int], ...] = "uniform"
    """Uniform: every layer of the student, the teacher's spread over them (24 to 12: every second);
    last: the last of both; or pairs [student's layer, teacher's layer], counted from 1.
    """
    teacher: int = Field(0, ge=0)
    """Its number among distillation.teachers."""

    @property
    def wanted(self) -> bool:
        return self.hidden_weight > 0 or self.attention_weight > 0


class TeachingConfig(Config):
    """How teachers count and where they live, whoever they are. Source: Hinton et al. 2015; ROaD
    part 1, section 3.5.
    """

    kd_weight: float = Field(0.5, ge=0, le=1)
    """Of the soft loss; the gold has the rest."""
    temperature: float = Field(2.0, ge=0.01, le=1000)
    """Of both sides; T^2 keeps the gradient's size."""
    schedule: Shape = "constant"
    """Of kd_weight over the training: constant; linear (teacher annealing, from 1 to 0 whatever
    kd_weight is); or points [fraction of training, kd_weight] joined by straight lines.
    """
    average_loss: bool = False
    """The mean of the teachers' own losses, weighed by the rule, instead of one loss to their
    weighted mean.
    """
    host: Literal["actors", "process"] = "actors"
    """Ray actors, one a teacher, or this process."""
    precision: Precision = "auto"
    """What teachers multiply in. auto: bf16 where the device gains by it; logits keep 8 bits."""
    label_map: dict[str, str] = Field({})
    """A teacher's name of a label -> the task's, where they are not the same; for all teachers."""
    lookahead: int = Field(2, ge=0)
    """Batches asked for ahead of the student."""
    cpus_per_teacher: float | None = Field(None, gt=0)
    """None: one, or less to leave students room."""
    gpus_per_teacher: float = Field(0.0, ge=0)
    replicas: int = Field(1, ge=1)
    """Actors with the same teachers; more answer more students."""
    teachers_per_actor: int = Field(1, ge=1)
    """More: they share a process, one after the other."""
    resources: dict[str, float] = Field(default_factory=dict)
    """Custom ones of each actor, which place it, such as {teacher: 1}."""
    timeout_seconds: float = Field(120.0, gt=0)
    """For one answer; then another replica is asked, or the teacher is replaced, once."""
    start_timeout_seconds: float = Field(120.0, gt=0)
    """For all teachers to load."""
    on_lost: Literal["stop", "drop"] = "stop"
    """A teacher that cannot be had ends the run, or is left out of the mean, with a word."""
    shared: bool = False
    """One pool for all runs of the cluster with the same teachers, such as the trials of a sweep.
    """
    store: Path | None = None
    """Where the teachers' logits are kept, so that each row is asked once; many runs may share it.
    """
    check_parity: bool = True
    """Ask each teacher in every way in use before the first step, and compare."""
    allow_other_teachers: bool = False
    """Go on with teachers that the run did not begin with."""

    @field_validator("schedule")
    @classmethod
    def _in_order(cls, shape: Shape) -> Shape:
        try:
            schedule(shape, 0.5)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return shape


class DistillationConfig(TeachingConfig):
    """The teachers of one data set."""

    teachers: tuple[str, ...] = ()
    """Model or run directories, hub names, or one teachers.json as `road teachers` writes it."""
    num_teachers: int = Field(3, ge=1)
    """As many as must be named: a forgotten one is an error."""
    generations: int = Field(1, ge=1)
    """Born-again: so many students in a row, each the only teacher of the next."""
    matching: MatchingConfig = MatchingConfig()

    @property
    def num_asked(self) -> int:
        """How many teachers answer for a run."""
        return self.num_teachers * num_folds(self.teachers)


RULES = (
    *("mean", "correctness", "correct_only", "confidence", "entropy"),
    *("mean_probabilities", "probability_shift"),
)
"""The weighting rules of ``distillation/weighting/``, named here so that a configuration loads
without torch."""


class WeightingConfig(Config):
    """Who of the teachers counts how much; each rule takes those of the options that concern it.
    Source: ROaD part 1, Algorithm 2.
    """

    rule: str = Field("correctness", json_schema_extra={"enum": list(RULES)})
    """Mean, correctness, correct_only, confidence, entropy, mean_probabilities or
    probability_shift: a name entered in distillation/weighting.
    """
    wrong: float = Field(0.75, ge=0, le=1)
    """W: the weight of a teacher that errs."""
    all_wrong: Literal["scale", "mean", "drop"] = "scale"
    """When none is right: W each, 1 each, no distillation."""
    span_correctness: Literal["independent", "joint"] = "independent"
    """Start and end judged apart or together."""

    @field_validator("rule")
    @classmethod
    def _known(cls, rule: str) -> str:
        # A rule of the user's own is entered by code that has imported the registry.
        registry = sys.modules.get("road_ray.distillation.weighting.registry")
        known = registry.known_rules() if registry else RULES
        if rule not in known:
            hint = did_you_mean(rule, known)
            raise ValueError(f"no such rule{hint}; allowed: {', '.join(known)}")
        return rule


class DistillConfig(FinetuneConfig):
    """A student run: fine-tuning plus teachers."""

    run_dir: Path = Path("runs/distill")
    distillation: DistillationConfig = DistillationConfig()
    weighting: WeightingConfig = WeightingConfig()

    def inputs(self) -> Inputs:
        return {**super().inputs(), TEACHERS: teacher_files(self.distillation.teachers)}
