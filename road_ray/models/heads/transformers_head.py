"""Head of an architecture as transformers builds it, for families without heads of our own."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import (
    MODEL_FOR_MULTIPLE_CHOICE_MAPPING,
    MODEL_FOR_QUESTION_ANSWERING_MAPPING,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING,
    PreTrainedConfig,
)
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPooling, ModelOutput

from road_ray.data.batching import Batch
from road_ray.data.task_and_dataset import Choose, Kind, Regress, Span, Tag
from road_ray.errors import CheckpointError
from road_ray.models.heads.base import Head


class TransformersHead(Head):
    """Layers that a model class of ``transformers`` puts on its encoder, with the class's own
    ``forward``: what they compute and how they are stored is the architecture's.

    ``[B, L, D]`` (``[B * N, L, D]`` of choices) to the logits of ``MultitaskModel``.
    """

    reads_batch: ClassVar[bool] = True

    def __init__(self, kind: Kind, config: PreTrainedConfig) -> None:
        super().__init__()
        self.choices = kind.choices if isinstance(kind, Choose) else 1
        sized = deepcopy(config)
        sized.num_labels = 2 if isinstance(kind, Span) else max(kind.width, 1)
        sized.problem_type = "regression" if isinstance(kind, Regress) else None
        with torch.device("meta"):  # the encoder of this model is dropped before it takes memory
            model: Any = _model_class(kind, config)(sized)
        pooler = getattr(model.base_model, "pooler", None)
        setattr(model, model.base_model_prefix, _GivenStates(pooler))
        model.to_empty(device="cpu")
        for part in model.modules():
            part._is_hf_initialized = False
        model.initialize_weights()
        self.model = model

    def forward(self, hidden: Tensor, batch: Batch) -> Tensor:
        mask = batch["attention_mask"]
        if self.choices > 1:
            hidden = hidden.view(-1, self.choices, *hidden.shape[1:])
        output = self.model(inputs_embeds=hidden, attention_mask=mask)
        if "start_logits" in output:
            return torch.stack([output.start_logits, output.end_logits], 1)
        logits: Tensor = output.logits
        return logits


class _GivenStates(nn.Module):
    """Module in the place of the encoder that returns the states it is given, and the encoder's
    pooler on them if the class wants one.
    """

    def __init__(self, pooler: nn.Module | None) -> None:
        super().__init__()
        self.pooler = pooler

    def forward(self, *_: object, inputs_embeds: Tensor, **__: object) -> ModelOutput:
        if self.pooler is None:
            return BaseModelOutput(last_hidden_state=inputs_embeds)
        pooled = self.pooler(inputs_embeds)
        return BaseModelOutputWithPooling(last_hidden_state=inputs_embeds, pooler_output=pooled)


def _model_class(kind: Kind, config: PreTrainedConfig) -> Any:
    match kind:
        case Span():
            mapping, name = MODEL_FOR_QUESTION_ANSWERING_MAPPING, "question answering"
        case Tag():
            mapping, name = MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING, "token classification"
        case Choose():
            mapping, name = MODEL_FOR_MULTIPLE_CHOICE_MAPPING, "multiple choice"
        case _:
            mapping, name = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, "sequence classification"
    entry = mapping.get(type(config), None)
    if entry is None:
        raise CheckpointError(
            f"{config.name_or_path or 'config.json'}: transformers has no head for {name} on "
            f"{config.model_type!r}\n  fix: name a model of another architecture, such as roberta"
        )
    return entry[0] if isinstance(entry, tuple) else entry
