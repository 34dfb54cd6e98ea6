"""The objective of a supervised run: labels, teachers' logits, hidden states of a teacher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from road_ray.data.features.examples_and_features import UNKNOWN
from road_ray.data.load_split import Split
from road_ray.data.task_and_dataset import Classify, MultiLabel, Tag
from road_ray.distillation.hidden_state_matching import HiddenStatesTeacher, StateMatching
from road_ray.distillation.schedule import schedule
from road_ray.objectives.distilled import Distilled
from road_ray.objectives.intermediate import IntermediateDistilled
from road_ray.objectives.supervised import Supervised
from road_ray.recipes.train.config import DistillConfig, FinetuneConfig, TrainConfig
from road_ray.recipes.train.prepare import Prepared
from road_ray.recipes.train.teachers import Teachers


def build_objective(
    config: TrainConfig, prepared: Prepared, teachers: Mapping[str, Teachers]
) -> Supervised:
    """Return the objective: labels, the teachers' logits, and the hidden states of one teacher if
    ``matching`` is enabled.
    """
    model, weights = prepared.model, prepared.mixture.loss_weights()
    one_dataset = len(weights) == 1
    of_labels: dict[str, Any] = {"weights": weights, "one_dataset": one_dataset}
    if isinstance(config, FinetuneConfig):
        split = prepared.splits[config.data.dataset]
        of_labels["class_weights"] = _class_weights(config.data.class_weights, split)
        of_labels["label_smoothing"] = config.data.label_smoothing
    if not teachers:
        return Supervised(model, **of_labels)
    settings = next(iter(teachers.values())).settings
    distilled: dict[str, Any] = {
        "kd_weight": schedule(settings.schedule, settings.kd_weight),
        "temperature": settings.temperature,
        **of_labels,
    }
    matching = config.distillation.matching if isinstance(config, DistillConfig) else None
    if matching is None or not matching.enabled:
        return Distilled(model, **distilled)
    directory = teachers[prepared.mixture.names[0]].directories[0]
    states = StateMatching(
        model.encoder,
        HiddenStatesTeacher(directory, attentions=matching.attention_weight > 0),
        layers=matching.layers,
        hidden_weight=matching.hidden_weight,
        attention_weight=matching.attention_weight,
    )
    return IntermediateDistilled(model, states, **distilled)


def _class_weights(
    choice: Literal["balanced"] | Mapping[str, float] | None, split: Split
) -> Tensor | None:
    """Return the weight of each label in the loss ``[C]``; 1 is that of an average example. Of
    several labels, balanced weights are the rows without the label by those with it.
    """
    kind = split.task.kind
    if not choice or not isinstance(kind, Classify | MultiLabel | Tag):
        return None
    if isinstance(choice, Mapping):
        return torch.tensor([choice.get(label, 1.0) for label in kind.labels])
    labels = split.features.gold["labels"]
    if isinstance(kind, MultiLabel):
        have, lack = (labels == 1).sum(0), (labels == 0).sum(0)
        balanced = np.where((have > 0) & (lack > 0), lack / np.maximum(have, 1), 1.0)
        return torch.tensor(balanced, dtype=torch.float32)
    counts = np.bincount(labels[labels != UNKNOWN], minlength=kind.width)
    present = counts > 0
    balanced = counts.sum() / (present.sum() * np.maximum(counts, 1))
    return torch.tensor(np.where(present, balanced, 1.0), dtype=torch.float32)
