"""The objective of a supervised run: labels, teachers' logits, hidden states of a teacher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from road_ray.distillation.hidden_state_matching import HiddenStatesTeacher, StateMatching
from road_ray.distillation.schedule import schedule
from road_ray.objectives.distilled import Distilled
from road_ray.objectives.intermediate import IntermediateDistilled
from road_ray.objectives.supervised import Supervised
from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.train.mixture import SupervisedConfig
from road_ray.recipes.train.prepare import Prepared
from road_ray.recipes.train.teachers import Teachers


def build_objective(
    config: SupervisedConfig, prepared: Prepared, teachers: Mapping[str, Teachers]
) -> Supervised:
    """Return the objective: labels, the teachers' logits, and the hidden states of one teacher if
    ``matching`` is enabled.
    """
    model, weights = prepared.model, prepared.mixture.loss_weights()
    one_dataset = len(weights) == 1
    if not teachers:
        return Supervised(model, weights=weights, one_dataset=one_dataset)
    settings = next(iter(teachers.values())).settings
    distilled: dict[str, Any] = {
        "kd_weight": schedule(settings.schedule, settings.kd_weight),
        "temperature": settings.temperature,
        "weights": weights,
        "one_dataset": one_dataset,
    }
    matching = config.distillation.matching if isinstance(config, DistillConfig) else None
    if matching is None or not matching.enabled:
        return Distilled(model, **distilled)
    directory = teachers[prepared.mixture.names[0]].directories[matching.teacher]
    states = StateMatching(
        model.encoder,
        HiddenStatesTeacher(directory, attentions=matching.attention_weight > 0),
        layers=matching.layers,
        hidden_weight=matching.hidden_weight,
        attention_weight=matching.attention_weight,
    )
    return IntermediateDistilled(model, states, **distilled)
