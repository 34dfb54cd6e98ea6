"""Baselines of ROaD's multi-task training: MT-DNN and BAM."""

from __future__ import annotations

from road_ray.presets.preset import preset
from road_ray.presets.road import ROAD_SETS
from road_ray.recipes.multitask.config import MixingConfig, MultitaskConfig, MultitaskDataConfig
from road_ray.training.config import OptimizerConfig, TrainingConfig


@preset("multitask")
def mt_dnn() -> MultitaskConfig:
    """The baseline of ROaD's comparison: one data set a step and a head for each, all else as
    road_large. Source: Liu et al. 2019; ROaD part 1, section 3.4.
    """
    data = MultitaskDataConfig(datasets=ROAD_SETS, batch_size=512)
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
