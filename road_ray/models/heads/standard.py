"""Heads as transformers builds them, so that a trained one loads there; ``build_head``.

There is one head per task, shared by its data sets (ROaD part 1, section 3.4).
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

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
from road_ray.data.task_and_dataset import Choose, JointSpan, Kind, Reason, Regress, Span, Tag
from road_ray.errors import CheckpointError
from road_ray.models.architectures import FAMILIES
from road_ray.models.encoder import initialize, initialize_output
from road_ray.models.heads.joint_span import JointSpanHead
from road_ray.models.heads.san import StochasticAnswerNetwork


class TransformersHead(nn.Module):
    """Layers that a model class of ``transformers`` puts on its encoder, with the class's own
    ``forward``: what they compute and how they are stored is the architecture's.

    ``[B, L, D]`` (``[B * N, L, D]`` of choices) to the logits of ``MultitaskModel``.
    """

    def __init__(self, kind: Kind, config: PreTrainedConfig) -> None:
        super().__init__()
        self.choices = kind.choices if isinstance(kind, Choose) else 1
        sized = deepcopy(config)
        sized.num_labels = 2 if isinstance(kind, Span) else max(kind.width, 1)
        sized.problem_type = "regression" if isinstance(kind, Regress) else None
        with torch.device("meta"):  # the encoder of this model is dropped before it takes memory
            model: Any = model_class(kind, config)(sized)
        setattr(model, model.base_model_prefix, _GivenStates(model.base_model))
        model.to_empty(device="cpu")
        if config.model_type in FAMILIES:
            _initialize(model, config)
        else:
            for part in model.modules():
                part._is_hf_initialized = False
            model.initialize_weights()
        self.model = model

    def forward(self, hidden: Tensor, batch: Batch) -> Tensor:
        if self.choices > 1:
            hidden = hidden.view(-1, self.choices, *hidden.shape[1:])
        output = self.model(inputs_embeds=hidden, attention_mask=batch["attention_mask"])
        if "start_logits" in output:
            return torch.stack([output.start_logits, output.end_logits], 1)
        logits: Tensor = output.logits
        return logits


class _GivenStates(nn.Module):
    """Module in the place of the encoder that returns the states it is given, and the encoder's
    pooler on them if the class wants one.
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.pooler: Any = getattr(encoder, "pooler", None)
        # ALBERT's pooler is a linear layer, with its activation beside it.
        self.activation: Any = getattr(encoder, "pooler_activation", None)

    def forward(self, *_: object, inputs_embeds: Tensor, **__: object) -> ModelOutput:
        if self.pooler is None:
            return BaseModelOutput(last_hidden_state=inputs_embeds)
        if self.activation is None:
            pooled = self.pooler(inputs_embeds)
        else:
            pooled = self.activation(self.pooler(inputs_embeds[:, 0]))
        return BaseModelOutputWithPooling(last_hidden_state=inputs_embeds, pooler_output=pooled)


def _initialize(model: nn.Module, config: PreTrainedConfig) -> None:
    """Initialize a head of a family of ours as its published fine-tuning code does: ELECTRA's last
    layer as ``initialize_output``, others as all their layers.

    Source: google-research/electra and google-research/bert, the classes in ``transformers``.
    """
    linears = [part for part in model.modules() if isinstance(part, nn.Linear)]
    for linear in linears:
        linear.reset_parameters()  # draws what a module built on the CPU has drawn
    is_electra = config.model_type == "electra"
    for part in model.children():
        if not (is_electra and part is linears[-1]):
            initialize(part, config.initializer_range)
    if is_electra:
        initialize_output(linears[-1])


def model_class(kind: Kind, config: PreTrainedConfig) -> Any:
    """Return the class of ``transformers`` for a kind of head on an architecture.

    Raises ``CheckpointError`` if it has none.
    """
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


def build_head(kind: Kind, config: PreTrainedConfig) -> nn.Module:
    """Return a new head of ``kind`` for an encoder with ``config``: ``head(hidden, batch)`` gives
    the logits.
    """
    match kind:
        case JointSpan():
            return JointSpanHead(config)
        case Reason():
            return StochasticAnswerNetwork(config, kind.width)
        case _:
            return TransformersHead(kind, config)


class Heads(nn.ModuleDict):
    """Heads by task name, also names such as ``v1.2`` and ``train``, which PyTorch refuses."""

    def __getitem__(self, key: str) -> nn.Module:
        return super().__getitem__(_module_name(key))

    def __setitem__(self, key: str, module: nn.Module) -> None:
        super().__setitem__(_module_name(key), module)


_EMPTY = nn.ModuleDict()


def _module_name(task: str) -> str:
    """Return the name, or one with a space where PyTorch refuses it; no task name has a space."""
    refused = "." in task or hasattr(_EMPTY, task)
    return f"task {task.replace('.', ' ')}" if refused else task
