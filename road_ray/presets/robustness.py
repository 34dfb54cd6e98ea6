"""Evaluation on adversarial and paraphrased versions of a data set."""

from __future__ import annotations

from road_ray.presets.preset import preset
from road_ray.recipes.config import EvaluateConfig, EvaluateDataConfig


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
