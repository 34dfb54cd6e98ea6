"""Configuration of `road pretrain` and `road reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from road_ray.config import Config
from road_ray.data.config import CorpusConfig
from road_ray.errors import did_you_mean
from road_ray.models.config import EncoderConfig, Tying
from road_ray.objectives.registry import OBJECTIVES
from road_ray.recipes.config import RunConfig
from road_ray.recipes.finetuning.config import FinetuneConfig, FinetuneDataConfig
from road_ray.recipes.inputs import Inputs, corpus_files, model_files
from road_ray.recipes.pretraining.comparisons import COMPARISONS
from road_ray.training.config import OptimizerConfig, TrainingConfig


class GeneratorConfig(Config):
    """The generator beside the main encoder. Source: Clark et al. 2020, section 3.2."""

    kind: Literal["model", "uniform", "unigram"] = "model"
    """What draws the replacements; "uniform" and "unigram" look at no context and learn nothing."""
    scale: float = Field(0.25, gt=0, le=1)
    """Of width, inner width and heads; 1/4 to 1/2 works best (figure 3)."""
    depth: float = Field(1.0, gt=0, le=1)
    """Of layers; ELECTRA keeps all, TEAMS half."""
    tying: Tying = "embeddings"
    """What it has in common with the main encoder: 83.6, 84.3, 84.4 GLUE points in this order."""
    init: str = ""
    """Go on from this masked language model of the generator's size (hf/ of an `mlm` run): it and
    all embeddings. A generator that already knows words gives the discriminator work at once.
    """
    frozen: bool = False
    """It only draws: the second of two stages; needs tying=none and init."""


class ObjectiveConfig(Config):
    """What is learnt; an option that is null has the objective's own default, from its paper."""

    name: str = Field("electra", json_schema_extra={"enum": list(OBJECTIVES)})
    choose_fraction: float | None = Field(None, gt=0, lt=1)
    """Of real tokens; 0.15, Large 0.25."""
    mask_fraction: float | None = Field(None, ge=0, le=1)
    """Of the chosen; the rest stay as they are: 0.85, in MC-BERT 1."""
    discriminator_weight: float | None = Field(None, ge=0)
    """Lambda, of the main encoder's loss: 50 in ELECTRA, because a two-way loss is far smaller than
    a V-way one; MC-BERT 50, TEAMS 5, 1 for the two MLM variants.
    """
    temperature: float | None = Field(None, gt=0)
    """Of the sampling; 1."""
    disallow_correct: bool | None = None
    """Never draw the original; false."""
    candidates: int | None = Field(None, ge=2, le=100)
    """To choose among: MC-BERT 10, TEAMS 5."""
    faithful: bool | None = None
    """MC-BERT's label noise as in the released code; false."""
    selection_weight: float | None = Field(None, ge=0)
    """TEAMS, of multi-word selection: 2."""
    shared_layers: int | None = Field(None, ge=0)
    """TEAMS, lowest layers of both networks: 3."""
    generator_weight: float | None = Field(None, ge=0)
    """Adversarial, of the policy gradient: 1."""

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in OBJECTIVES:
            hint = did_you_mean(name, OBJECTIVES)
            raise ValueError(f"no such objective{hint}; allowed: {', '.join(OBJECTIVES)}")
        return name


class ProbeConfig(Config):
    """Source of the defaults: Clark et al. 2020, table 7 (ELECTRA-Small); sizes are our choice."""

    datasets: tuple[str, ...] = ()
    """None: no probe. Else at the end, and every `training.evaluate_every_steps` before it."""
    root: str | None = None
    """None: that of the corpus."""
    steps: int = Field(300, ge=1)
    batch_size: int = Field(32, ge=1)
    peak_lr: float = Field(3e-4, gt=0)
    max_length_tokens: int = Field(64, ge=8)
    max_rows: int = Field(20_000, ge=1)
    """Learnt from."""
    max_judged_rows: int = Field(2000, ge=1)


class PretrainConfig(RunConfig):
    """Source of the defaults: ELECTRA-Small, Clark et al. 2020, table 6."""

    run_dir: Path = Path("runs/pretrain")
    init: str = ""
    """Go on from this encoder; empty: new weights."""
    start: Literal["random", "corpus"] = "random"
    """Of new weights. "corpus": words, positions and first heads start from what the corpus says
    (models/corpus_init.py); for models and budgets so small that they would not leave the
    frequencies.
    """
    data: CorpusConfig = CorpusConfig()
    encoder: EncoderConfig = EncoderConfig()
    generator: GeneratorConfig = GeneratorConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optimizer: OptimizerConfig = OptimizerConfig(peak_lr=5e-4, warmup_steps=10_000)
    training: TrainingConfig = TrainingConfig(steps=1_000_000)
    probe: ProbeConfig = ProbeConfig()

    @model_validator(mode="after")
    def _something_to_evaluate(self) -> Self:
        if self.training.evaluate_every_steps is not None and not self.probe.datasets:
            raise ValueError(
                "training.evaluate_every_steps needs something to evaluate: probe.datasets=[sst2]"
            )
        return self

    def inputs(self) -> Inputs:
        return {
            "init": [*model_files(self.init), *model_files(self.generator.init)],
            "data": corpus_files(self.data),
        }


def laptop_scale() -> PretrainConfig:
    """What the arms of a comparison share on a laptop: two layers of 128, short rows, a start from
    the corpus. Our choice.
    """
    return PretrainConfig(
        start="corpus",
        data=CorpusConfig(vocab_size=4096, max_length_tokens=64, batch_size=32),
        encoder=EncoderConfig(
            layers=2,
            hidden_size=128,
            heads=2,
            intermediate_size=512,
            dropout=0.0,
            attention_dropout=0.0,
            initializer_std=0.06,
        ),
        generator=GeneratorConfig(scale=0.5),
        optimizer=OptimizerConfig(peak_lr=1e-3, beta2=0.98, bias_correction=True),
        training=TrainingConfig(steps=1000, log_every_steps=100),
    )


class ReproduceConfig(RunConfig):
    """A comparison, its scale, and the probe that gives the score. All scales are our choice."""

    run_dir: Path = Path("runs/reproduce")
    comparison: str = Field("table5", json_schema_extra={"enum": list(COMPARISONS)})
    flops: float = Field(6e13, gt=0)
    """Of each arm's pre-training, by the paper's rules; ELECTRA-Small has 1.3e18."""
    num_seeds: int = Field(3, ge=1)
    pretrain: PretrainConfig = laptop_scale()
    """What all arms share."""
    probe: FinetuneConfig = FinetuneConfig(
        data=FinetuneDataConfig(max_length_tokens=64, max_rows=20_000, max_judged_rows=4000),
        training=TrainingConfig(steps=600, log_every_steps=200),
    )
    probe_on: tuple[str, ...] = ("sst2", "qqp", "mnli", "cola")
    """The score is the mean of the first metric of these, in hundredths, as the GLUE score is."""
    root: str | None = None
    """Of the probes' data and of the corpus, unless they have their own."""
    max_concurrent: int = Field(0, ge=0)
    """Arms side by side, a Ray task each; 0: one after the other."""
    timeout_seconds: float = Field(7 * 86400.0, gt=0)
    """For all of them."""

    @field_validator("comparison")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in COMPARISONS:
            hint = did_you_mean(name, COMPARISONS)
            raise ValueError(f"no such comparison{hint}; allowed: {', '.join(COMPARISONS)}")
        return name


class ArmConfig(RunConfig):
    """One arm with one seed: its stages, then its probes."""

    stages: tuple[PretrainConfig, ...]
    probes: tuple[FinetuneConfig, ...]
