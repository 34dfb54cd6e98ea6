"""A tiny objective of every kind, the second of two stages too."""

from typing import Any

import torch
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from road_ray.objectives.base import Objective
from road_ray.objectives.pretraining.registry import OBJECTIVES, models_of, objective_class
from tests.tiny_encoder import small_config

KINDS = (*OBJECTIVES, "second_stage")
_OPTIONS = {
    "teams": {"shared_layers": 1, "candidates": 3},
    "mc_bert": {"candidates": 4},
    "second_stage": {"tying": "none"},
}
_CLS, _SEP, _MASK = 2, 3, 4


def config_of(hidden: int, dropout: float, layers: int = 2) -> Any:
    """Few layers over a vocabulary of sixty."""
    dropouts = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return small_config(hidden_size=hidden, num_hidden_layers=layers, **dropouts)


def objective_of(kind: str, *, dropout: float, layers: int = 2) -> Objective:
    """The same weights at every call; ``second_stage`` is ELECTRA with a frozen generator."""
    torch.manual_seed(0)
    chosen = objective_class("electra" if kind == "second_stage" else kind)
    small = config_of(32 if kind == "teams" else 16, dropout, layers)
    large = config_of(32, dropout, layers)
    models = {
        "generator": lambda: ElectraForMaskedLM(small),
        "model": lambda: ElectraForMaskedLM(large),
        "discriminator": lambda: ElectraForPreTraining(large),
    }
    made = [models[name]() for name in models_of(chosen)]
    if kind == "second_stage":
        made[0].requires_grad_(False)
    return chosen(
        *made, special_ids=(0, _CLS, _SEP, _MASK), mask_id=_MASK, **_OPTIONS.get(kind, {})
    )
