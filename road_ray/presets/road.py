"""ROaD: SQuAD 2.0 students and teachers, multi-task mixtures."""

from __future__ import annotations

from road_ray.presets.preset import preset
from road_ray.recipes.distillation.config import DistillConfig, DistillDataConfig, WeightingConfig
from road_ray.recipes.finetuning.config import (
    FinetuneConfig,
    FinetuneDataConfig,
    FinetuningsConfig,
    TeachersConfig,
)
from road_ray.recipes.multitask.config import (
    MixTeachingConfig,
    MultitaskConfig,
    MultitaskDataConfig,
)
from road_ray.training.config import OptimizerConfig, TrainingConfig

# Source: ROaD part 1, figure 2; triviaqa and natural_questions as MRQA 2019 has them.
ROAD_SETS = (
    "triviaqa", "natural_questions", "quac", "qasrl", "qazre", "mnli", "snli", "amazon", "qqp",
)  # fmt: skip


@preset("finetune")
def squad_v2_small() -> FinetuningsConfig:
    """SQuAD 2.0 as for ELECTRA-Small, judged on NewsQA too. Source: Clark et al. 2020, table 7."""
    return FinetuningsConfig(
        data=FinetuneDataConfig(
            dataset="squad_v2", evaluate_on=("squad_v2", "newsqa"), max_length_tokens=512, epochs=2
        )
    )


@preset("multitask")
def road_large() -> MultitaskConfig:
    """ROaD-Large multi-task pre-training, its nine data sets. Source: ROaD part 1, section 3.5.
    Questions of QuAC are read without the turns before them, of which the paper says nothing.
    """
    return MultitaskConfig(data=MultitaskDataConfig(datasets=ROAD_SETS))


@preset("multitask")
def road_with_kd() -> MultitaskConfig:
    """ROaD's multi-task training with distillation: road_large with a teacher for every data set,
    which distillation.teachers.<data set> names. Source: ROaD part 1, section 3.5; T = 4 and equal
    weights our choice, the paper says above 3.
    """
    distillation = MixTeachingConfig(num_teachers=1, temperature=4.0, kd_weight=0.5)
    # A rule over one teacher could only change its temperature; the paper's is plain distillation.
    plain = WeightingConfig(rule="mean")
    return road_large().model_copy(update={"distillation": distillation, "weighting": plain})


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


@preset("teachers")
def three_teachers_squad_v2() -> TeachersConfig:
    """Three SQuAD 2.0 teachers that differ in their seed. Source: ROaD part 1, section 5."""
    return TeachersConfig(**_as_fields(squad_v2_small()), num_teachers=3)


@preset("distill")
def weighted_kd_squad_v2() -> DistillConfig:
    """Weighted KD on SQuAD 2.0, W = 0.75. Source: ROaD part 1, Algorithm 2; temperature and weight
    our choice.
    """
    shared = _as_fields(squad_v2_small())
    return DistillConfig(**shared | {"data": DistillDataConfig(**vars(shared["data"]))})


def _as_fields(config: FinetuneConfig) -> dict[str, object]:
    """Return the fields that a fine-tuning shares with teachers and students but ``run_dir``."""
    return {name: getattr(config, name) for name in ("data", "optimizer", "training")}
