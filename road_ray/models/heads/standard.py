"""Heads of Hugging Face, so that a trained one loads with ``transformers``; ``build_head``.

There is one head per task, shared by its data sets (ROaD part 1, section 3.4).
"""

from __future__ import annotations

from copy import deepcopy

from torch import Tensor, nn
from transformers import PreTrainedConfig
from transformers.models.electra.modeling_electra import (
    ElectraClassificationHead,
    ElectraSequenceSummary,
)

from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    JointSpan,
    Kind,
    Reason,
    Regress,
    Span,
    Tag,
)
from road_ray.models.architectures import FAMILIES, head_dropout
from road_ray.models.encoder import initialize, initialize_task_output
from road_ray.models.heads.base import Head
from road_ray.models.heads.joint_span import JointSpanHead
from road_ray.models.heads.san import StochasticAnswerNetwork
from road_ray.models.heads.transformers_head import TransformersHead


class SentenceHead(Head):
    """Classification or regression from the first token: ``[B, L, D] -> [B, width]``.

    A dense layer, GELU and a linear layer, as in transformers' ELECTRA, so that it loads the
    exported model. google-research/electra has the linear layer alone; the choice is ours.
    """

    def __init__(self, config: PreTrainedConfig, width: int) -> None:
        super().__init__()
        sized = deepcopy(config)
        sized.num_labels = width
        self.classifier = ElectraClassificationHead(sized)
        initialize(self.classifier, config.initializer_range)
        initialize_task_output(self.classifier.out_proj, config)

    def forward(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.classifier(hidden)
        return logits


class PooledHead(Head):
    """``SentenceHead`` of BERT and ALBERT, with a tanh pooler: ``[B, L, D] -> [B, width]``."""

    def __init__(self, config: PreTrainedConfig, width: int) -> None:
        super().__init__()
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(head_dropout(config))
        self.classifier = nn.Linear(config.hidden_size, width)
        initialize(self.pooler, config.initializer_range)
        initialize_task_output(self.classifier, config)

    def forward(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.dropout(self.pooler(hidden[:, 0]).tanh()))
        return logits


class SpanHead(Head):
    """Start and end logits, independent of each other: ``[B, L, D] -> [B, 2, L]``.

    Position 0 means no answer. Source: ROaD part 1, section 2.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        initialize_task_output(self.qa_outputs, config)

    def forward(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.qa_outputs(hidden)
        return logits.transpose(1, 2)


class TagHead(Head):
    """Logits of every token: ``[B, L, D] -> [B, L, width]``. Source: Devlin et al. 2019, s. 5.3."""

    def __init__(self, config: PreTrainedConfig, width: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(head_dropout(config))
        self.classifier = nn.Linear(config.hidden_size, width)
        initialize_task_output(self.classifier, config)

    def forward(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.dropout(hidden))
        return logits


class ChoiceHead(Head):
    """One logit per choice from its first token: ``[B * N, L, D] -> [B, N]``."""

    def __init__(self, config: PreTrainedConfig, choices: int) -> None:
        super().__init__()
        self.choices = choices
        self.sequence_summary = ElectraSequenceSummary(config)
        self.classifier = nn.Linear(config.hidden_size, 1)
        initialize(self.sequence_summary, config.initializer_range)
        initialize_task_output(self.classifier, config)

    def forward(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.sequence_summary(hidden))
        return logits.view(-1, self.choices)


class PooledChoiceHead(PooledHead):
    """``ChoiceHead`` of BERT and ALBERT: ``[B * N, L, D] -> [B, N]``."""

    def __init__(self, config: PreTrainedConfig, choices: int) -> None:
        super().__init__(config, 1)
        self.choices = choices

    def forward(self, hidden: Tensor) -> Tensor:
        return super().forward(hidden).view(-1, self.choices)


def build_head(kind: Kind, config: PreTrainedConfig) -> Head:
    """Return a new head of ``kind`` for an encoder with ``config``."""
    built_in = config.model_type in FAMILIES
    pooled = built_in and FAMILIES[config.model_type].pooler is not None
    match kind:
        case JointSpan():
            return JointSpanHead(config)
        case Reason():
            return StochasticAnswerNetwork(config, kind.width)
        case _ if not built_in:
            return TransformersHead(kind, config)
        case Span():
            return SpanHead(config)
        case Tag():
            return TagHead(config, kind.width)
        case Choose():
            return (PooledChoiceHead if pooled else ChoiceHead)(config, kind.choices)
        case Classify() | Regress():
            return (PooledHead if pooled else SentenceHead)(config, kind.width)


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
