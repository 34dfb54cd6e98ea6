"""Presets: named whole configurations, each a function that returns one. ``road presets`` lists
them.

A preset is a base: a YAML file and ``a.b=value`` go on top of it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from road_ray.config import Config
from road_ray.data.corpus.source import CorpusConfig
from road_ray.errors import ConfigError
from road_ray.models.encoder import EncoderConfig
from road_ray.presets.electra import PUBLISHED
from road_ray.recipes.distillation.config import WeightingConfig
from road_ray.recipes.distillation.distill_config import DistillConfig
from road_ray.recipes.evaluate import EvaluateConfig, EvaluateDataConfig
from road_ray.recipes.finetuning.finetune import FinetuneConfig, FinetuneDataConfig
from road_ray.recipes.finetuning.many import FinetuningsConfig
from road_ray.recipes.finetuning.teachers import TeachersConfig
from road_ray.recipes.multitask.config import (
    MixingConfig,
    MixTeachingConfig,
    MultitaskConfig,
    MultitaskDataConfig,
)
from road_ray.recipes.pretraining.build import GeneratorConfig, ObjectiveConfig
from road_ray.recipes.pretraining.pretrain import PretrainConfig
from road_ray.training.config import TrainingConfig
from road_ray.training.optimizer import OptimizerConfig


@dataclass(frozen=True)
class Preset:
    """A named configuration of one verb."""

    name: str
    verb: str
    about: str
    make: Callable[[], Config]


PRESETS: dict[str, Preset] = {}

C = TypeVar("C", bound=Config)


def preset(verb: str) -> Callable[[Callable[[], C]], Callable[[], C]]:
    """Enter a function under its own name; its docstring is what ``road presets`` says of it."""

    def enter(make: Callable[[], C]) -> Callable[[], C]:
        about = " ".join((make.__doc__ or "").split())
        PRESETS[make.__name__] = Preset(make.__name__, verb, about, make)
        return make

    return enter


def named(name: str) -> Preset:
    """The preset of that name. Raises ``ConfigError`` naming the nearest one."""
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"unknown preset {name!r}{hint}\n  known: {', '.join(sorted(PRESETS))}")
    return PRESETS[name]


for published in PUBLISHED:
    preset("pretrain")(published)


def _tiny() -> EncoderConfig:
    return EncoderConfig(
        layers=4,
        hidden_size=256,
        heads=4,
        intermediate_size=1024,
        embedding_size=128,
        max_length_tokens=512,
        dropout=0.0,  # hours on a laptop see no text twice
        attention_dropout=0.0,
        initializer_std=0.06,  # about 1 / sqrt(width)
    )


@preset("pretrain")
def tiny_mlm() -> PretrainConfig:
    """First stage for a laptop: a masked language model on short rows, 12 million tokens. Our
    choice.
    """
    return PretrainConfig(
        start="corpus",
        data=CorpusConfig(vocab_size=4096, max_length_tokens=64, batch_size=16),
        encoder=_tiny(),
        objective=ObjectiveConfig(name="mlm", choose_fraction=0.25),
        # Without bias correction the first hundred updates are several times too large at this
        # rate.
        optimizer=OptimizerConfig(
            peak_lr=1.5e-3, warmup_steps=200, beta2=0.98, bias_correction=True
        ),
        training=TrainingConfig(steps=12_000, save_every_steps=2000, log_every_steps=100),
    )


@preset("pretrain")
def tiny_electra() -> PretrainConfig:
    """Second stage for a laptop: generator and discriminator both go on from tiny_mlm (give its run
    as init and as generator.init). Our choice.
    """
    return PretrainConfig(
        start="corpus",
        data=CorpusConfig(vocab_size=4096, max_length_tokens=128, batch_size=16),
        encoder=_tiny(),
        # As large as the discriminator, so that both can go on from one model.
        generator=GeneratorConfig(scale=1.0),
        optimizer=OptimizerConfig(peak_lr=5e-4, warmup_steps=200, beta2=0.98, bias_correction=True),
        training=TrainingConfig(steps=4_500, save_every_steps=500, log_every_steps=100),
    )


@preset("finetune")
def glue() -> FinetuningsConfig:
    """Every GLUE task at hand as for ELECTRA-Small, one table with the average. Source: Clark et
    al. 2020, table 7; give num_seeds=10 for the medians of the paper.
    """
    long: dict[str, Any] = {"data.epochs": 10.0}
    both = ("mnli", "mnli_mismatched")
    names = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")
    own: dict[str, Any] = {"rte": long, "stsb": long, "mnli": {"data.evaluate_on": both}}
    return FinetuningsConfig(
        run_dir=Path("runs/glue"),
        data=FinetuneDataConfig(max_length_tokens=128),
        pool={name: own.get(name, {}) for name in names},
        only_at_hand=True,
    )


@preset("finetune")
def glue_from_mnli() -> FinetuningsConfig:
    """As glue, but RTE, STS-B and MRPC go on from the model of MNLI. Source: Clark et al. 2020,
    section 3.4.
    """
    start_from = dict.fromkeys(("rte", "stsb", "mrpc"), "mnli")
    told = {"start_from": start_from, "run_dir": Path("runs/glue-from-mnli")}
    return glue().model_copy(update=told)


@preset("finetune")
def sst2_small() -> FinetuningsConfig:
    """SST-2 as for ELECTRA-Small. Source: Clark et al. 2020, table 7."""
    return FinetuningsConfig(
        data=FinetuneDataConfig(dataset="sst2", max_length_tokens=128, epochs=3)
    )


@preset("finetune")
def squad_v2_small() -> FinetuningsConfig:
    """SQuAD 2.0 as for ELECTRA-Small, judged on NewsQA too. Source: Clark et al. 2020, table 7."""
    return FinetuningsConfig(
        data=FinetuneDataConfig(
            dataset="squad_v2", evaluate_on=("squad_v2", "newsqa"), max_length_tokens=512, epochs=2
        )
    )


# Source: ROaD part 1, figure 2; triviaqa and natural_questions as MRQA 2019 has them.
_ROAD_SETS = (
    "triviaqa", "natural_questions", "quac", "qasrl", "qazre", "mnli", "snli", "amazon", "qqp",
)  # fmt: skip


@preset("multitask")
def road_large() -> MultitaskConfig:
    """ROaD-Large multi-task pre-training, its nine data sets. Source: ROaD part 1, section 3.5."""
    return MultitaskConfig(data=MultitaskDataConfig(datasets=_ROAD_SETS))


@preset("multitask")
def road_with_kd() -> MultitaskConfig:
    """ROaD's multi-task training with distillation: road_large with a teacher for every data set,
    which distillation.teachers.<data set> names. Source: ROaD part 1, section 3.5; T = 4 and equal
    weights our choice, the paper says above 3.
    """
    taught = MixTeachingConfig(num_teachers=1, temperature=4.0, kd_weight=0.5)
    # A rule over one teacher could but change its temperature; the paper's is plain distillation.
    plain = WeightingConfig(rule="mean")
    return road_large().model_copy(update={"distillation": taught, "weighting": plain})


@preset("multitask")
def road_base() -> MultitaskConfig:
    """ROaD-Base v1.1: twice the steps. Source: ROaD part 2, section 5.1."""
    return road_large().model_copy(update={"training": TrainingConfig(steps=40_000)})


@preset("multitask")
def road_small_mix() -> MultitaskConfig:
    """Ten small data sets and seven heads, for a laptop: ROaD's mixing, short rows. Our choice."""
    return MultitaskConfig(
        data=MultitaskDataConfig(
            datasets=(
                "squad_v2", "qasrl", "qazre", "snli", "mnli", "qqp", "amazon", "boolq",
                "commonsenseqa", "conll2003",
            ),
            batch_size=8,
            max_length_tokens=128,
            max_judged_rows=500,
        ),
        # A short run would end in the many first updates that are too large without correction.
        optimizer=OptimizerConfig(
            peak_lr=3e-4, layer_decay=0.75, warmup_steps=50, bias_correction=True
        ),
        training=TrainingConfig(steps=1000, log_every_steps=50),
    )  # fmt: skip


@preset("multitask")
def mt_dnn() -> MultitaskConfig:
    """The baseline of ROaD's comparison: one data set a step and a head for each, all else as
    road_large. Source: Liu et al. 2019; ROaD part 1, section 3.4.
    """
    data = MultitaskDataConfig(datasets=_ROAD_SETS, batch_size=512)
    return MultitaskConfig(data=data, mixing=MixingConfig(passes=1, heads="dataset"))


@preset("multitask")
def bam() -> MultitaskConfig:
    """BAM's mixing on GLUE, without teachers: data sets drawn by their size to the power of 0.75,
    six epochs of 949,000 rows. Source: Clark et al. 2019; four passes for its mixed batches.
    """
    sets = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
    return MultitaskConfig(
        data=MultitaskDataConfig(datasets=sets, batch_size=32, max_length_tokens=128),
        mixing=MixingConfig(passes=4, sampler="size_power", power=0.75, heads="dataset"),
        optimizer=OptimizerConfig(peak_lr=1e-4, layer_decay=0.9, schedule="warmup_then_decay"),
        training=TrainingConfig(steps=44_500),
    )


@preset("teachers")
def three_teachers_squad_v2() -> TeachersConfig:
    """Three SQuAD 2.0 teachers that differ in their seed. Source: ROaD part 1, section 5."""
    return TeachersConfig(**_as_fields(squad_v2_small()), num_teachers=3)


@preset("distill")
def weighted_kd_squad_v2() -> DistillConfig:
    """Weighted KD on SQuAD 2.0, W = 0.75. Source: ROaD part 1, Algorithm 2; temperature and weight
    our choice.
    """
    return DistillConfig(**_as_fields(squad_v2_small()))


def _as_fields(config: FinetuneConfig) -> dict[str, object]:
    """The fields that a fine-tuning shares with teachers and students, but for the directory."""
    return {name: getattr(config, name) for name in ("data", "optimizer", "training")}


@preset("evaluate")
def squad_robust() -> EvaluateConfig:
    """SQuAD 1.1 and its adversarial versions, and whether the answers stay. Source: Jia and Liang
    2017.
    """
    sets = ("squad_v1", "squad_addsent", "squad_addonesent")
    pairs = dict.fromkeys(sets[1:], sets[0])
    return EvaluateConfig(data=EvaluateDataConfig(datasets=sets, same_as=pairs))


@preset("evaluate")
def paraphrase_robust() -> EvaluateConfig:
    """A model of QQP on PAWS and adversarial QQP. Source: Zhang et al. 2019; Wang et al. 2021."""
    return EvaluateConfig(data=EvaluateDataConfig(datasets=("qqp", "paws", "advglue_qqp")))


@preset("evaluate")
def nli_robust() -> EvaluateConfig:
    """A model of MNLI on both dev sets and on adversarial ones. Source: Wang et al. 2021."""
    sets = ("mnli", "mnli_mismatched", "advglue_mnli", "advglue_mnli_mismatched")
    return EvaluateConfig(data=EvaluateDataConfig(datasets=sets))
