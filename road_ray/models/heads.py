"""Heads: the output layers that a task adds to an encoder, those of transformers and ours.

``build_head`` chooses one. Ours are ELECTRA's joint head for questions and MT-DNN's stochastic
answer network (SAN). To add one, write a class here, a kind in ``data/task_and_dataset.py`` and
its entry there. ``OwnHead`` holds a class of the user's own, which needs neither.
"""

from copy import deepcopy
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPooling, ModelOutput

from road_ray.data.batching import Batch, allowed_positions, second_text
from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    JointSpan,
    Kind,
    MultiLabel,
    Reason,
    Regress,
    Span,
    Task,
)
from road_ray.models.architectures import FAMILIES, FIRST_TOKEN_FAMILIES, model_class
from road_ray.models.encoder import initialize, initialize_output
from road_ray.system.own_names import named_object, unfit

BEAM = 20
_WIDTH = 512
_MASKED = float("-inf")


class JointSpanHead(nn.Module):
    """Joint span head. With labels ``[B, L, D] -> [B, 3, L]``: start logits, end logits given the
    labelled start, and the logit of no answer, repeated in every position.

    Without labels ``-> [B, 2 + K, L]``: log-probabilities of the start, the logit of no answer in
    every position, and for each of the K best starts those of its ends, ``-inf`` before the start.
    Source: google-research/electra, finetune/qa/qa_tasks.py.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__()
        self.start = nn.Linear(config.hidden_size, 1)
        self.end_dense = nn.Linear(2 * config.hidden_size, _WIDTH)
        self.end = nn.Linear(_WIDTH, 1)
        self.impossible_dense = nn.Linear(2 * config.hidden_size, _WIDTH)
        self.impossible = nn.Linear(_WIDTH, 1)
        initialize(self, config.initializer_range)
        for output in (self.start, self.end, self.impossible):
            initialize_output(output)

    def forward(self, hidden: Tensor, batch: Batch) -> Tensor:
        allowed = allowed_positions(batch).to(hidden.device)
        start = self.start(hidden).squeeze(-1).float().masked_fill(~allowed, _MASKED)
        expected = (start.softmax(-1)[..., None] * hidden).sum(1).to(hidden.dtype)
        # The logit of no answer reads the first token and the expected start.
        dense = functional.gelu(self.impossible_dense(torch.cat([hidden[:, 0], expected], -1)))
        unanswered = self.impossible(dense).float().expand_as(start)
        if "start_positions" in batch:
            label = batch["start_positions"].clamp(min=0)  # the loss ignores unknown labels
            return torch.stack([start, self._ends(hidden, label, allowed), unanswered], 1)
        first = start.log_softmax(-1)
        rows = [first, unanswered]
        positions = torch.arange(start.shape[1], device=hidden.device)
        for begin in first.topk(min(BEAM, start.shape[1])).indices.unbind(1):
            ends = self._ends(hidden, begin, allowed).log_softmax(-1)
            masked = first.gather(1, begin[:, None]) == _MASKED  # fewer starts than BEAM
            rows.append(ends.masked_fill(masked | (positions < begin[:, None]), _MASKED))
        return torch.stack(rows, 1)

    def _ends(self, hidden: Tensor, start: Tensor, allowed: Tensor) -> Tensor:
        """Return the end logits for one start per row: ``[B, L, D], [B] -> [B, L]``."""
        begin = hidden[torch.arange(len(hidden), device=hidden.device), start]
        both = torch.cat([begin[:, None].expand_as(hidden), hidden], -1)
        logits: Tensor = self.end(functional.gelu(self.end_dense(both))).squeeze(-1).float()
        return logits.masked_fill(~allowed, _MASKED)


STEPS = 5
_DROPOUT = 0.1  # of inputs and, in training, of whole steps


class StochasticAnswerNetwork(nn.Module):
    """Log-probabilities of the classes, averaged over ``STEPS`` steps: ``[B, L, D] -> [B, width]``.

    In training each row drops some of its steps, but never all. A row without a second text
    attends to its only one. Source: Liu et al. 2018 (SAN); Liu et al. 2019 (MT-DNN), section 3.
    """

    def __init__(self, config: PreTrainedConfig, width: int) -> None:
        super().__init__()
        size = config.hidden_size
        self.dropout = nn.Dropout(_DROPOUT)
        self.begin = nn.Linear(size, 1)
        self.look = nn.Linear(size, size)
        self.update = nn.GRUCell(size, size)
        self.classifier = nn.Linear(4 * size, width)
        initialize(self, config.initializer_range)
        initialize_output(self.classifier)

    def forward(self, hidden: Tensor, batch: Batch) -> Tensor:
        # A recurrence over few vectors gains little in bf16, and probabilities are averaged.
        with torch.autocast(hidden.device.type, enabled=False):
            return self._answer(self.dropout(hidden.float()), batch)

    def _answer(self, hidden: Tensor, batch: Batch) -> Tensor:
        real, marks = batch["attention_mask"].bool().to(hidden.device), second_text(batch)
        second = torch.zeros_like(real) if marks is None else (marks == 1).to(hidden.device) & real
        first, alone = real & ~second, ~second.any(1, keepdim=True)
        second = second | (real & alone)
        state = _attend(hidden, self.begin(hidden).squeeze(-1), second)
        steps = []
        for _ in range(STEPS):
            query = self.look(state)[:, None]
            seen = _attend(hidden, (hidden * query).sum(-1), first)
            features = [state, seen, (state - seen).abs(), state * seen]
            steps.append(self.classifier(self.dropout(torch.cat(features, -1))).softmax(-1))
            state = self.update(seen, state)
        mask = self._step_mask(hidden)
        mean = (torch.stack(steps, 1) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return mean.clamp(min=1e-8).log()

    def _step_mask(self, hidden: Tensor) -> Tensor:
        """Return ``[B, STEPS]`` ones, and zeros for dropped steps."""
        mask = hidden.new_ones(len(hidden), STEPS)
        if self.training:
            noise = torch.rand_like(mask)
            mask = (noise > _DROPOUT).float()
            mask.scatter_(1, noise.argmax(1, keepdim=True), 1.0)
        return mask


def _attend(hidden: Tensor, scores: Tensor, where: Tensor) -> Tensor:
    """Return the mean of the tokens in the mask ``where``, weighted by their scores: ``[B, D]``."""
    weights = scores.masked_fill(~where, _MASKED).softmax(-1)
    return (weights[..., None] * hidden).sum(1)


class TransformersHead(nn.Module):
    """Layers that a model class of ``transformers`` puts on its encoder, with the class's own
    ``forward``: what they compute and how they are stored is the architecture's.

    ``[B, L, D]`` (``[B * N, L, D]`` of choices) to the logits of ``MultitaskModel``.
    """

    def __init__(self, kind: Kind, config: PreTrainedConfig) -> None:
        super().__init__()
        sized = deepcopy(config)
        sized.num_labels = 2 if isinstance(kind, Span) else max(kind.width, 1)
        sized.problem_type = "regression" if isinstance(kind, Regress) else None
        with torch.device("meta"):  # the encoder of this model is dropped before it takes memory
            model: Any = model_class(kind, config)(sized)
        setattr(model, model.base_model_prefix, _GivenStates(model.base_model))
        model.to_empty(device="cpu")
        if config.model_type in FAMILIES:
            # As published fine-tuning code does: ELECTRA's last layer as ``initialize_output``, the
            # others as all layers. Source: google-research/electra and google-research/bert.
            linears = [part for part in model.modules() if isinstance(part, nn.Linear)]
            for linear in linears:
                linear.reset_parameters()  # draws what a module built on the CPU has drawn
            is_electra = config.model_type == "electra"
            for part in model.children():
                if not (is_electra and part is linears[-1]):
                    initialize(part, config.initializer_range)
            if is_electra:
                initialize_output(linears[-1])
        else:
            for part in model.modules():
                part._is_hf_initialized = False
            model.initialize_weights()
        self.model = model
        sentence = isinstance(kind, Classify | MultiLabel | Regress | Choose)
        sentence = sentence and getattr(config, "summary_type", "first") == "first"  # of ELECTRA
        self.reads_first_token = sentence and config.model_type in FIRST_TOKEN_FAMILIES

    def forward(self, hidden: Tensor, batch: Batch) -> Tensor:
        if batch["input_ids"].dim() > 2:  # of choices
            hidden = hidden.view(*batch["input_ids"].shape[:2], *hidden.shape[1:])
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


_CONTRACT = (
    "a torch.nn.Module, built with (hidden_size, num_labels), that takes states [B, L, H] and mask "
    "[B, L] to logits [B, num_labels]\n  fix: correct it until road_ray.testing.check_head passes"
)


def own_head(name: str, key: str = "head") -> type[nn.Module]:
    """Return the class ``package.module:Class``, the value of ``key``. Raises ``ConfigError`` if it
    is no module's.
    """
    kind = named_object(key, name, {}, _CONTRACT)
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise unfit(key, name, f"is {kind!r}", _CONTRACT)
    return kind


class OwnHead(nn.Module):
    """Head of the user's own, by its name: ``[B, L, D] -> [B, C]`` in fp32.

    Its outputs are put in the order and the units of a task by ``order``, ``scale`` and ``shift``,
    as none of its layers is known. It is called once, so that a mistake fails before a training.
    """

    def __init__(self, name: str, hidden_size: int, width: int) -> None:
        super().__init__()
        kind = own_head(name)
        self.order = nn.Buffer(torch.arange(width))
        self.scale, self.shift = nn.Buffer(torch.tensor(1.0)), nn.Buffer(torch.tensor(0.0))
        try:
            self.head = kind(hidden_size, width).eval()
            with torch.no_grad():
                logits = self.head(torch.zeros(2, 3, hidden_size), torch.ones(2, 3).long())
            save(self.head.state_dict())  # refuses tensors that share memory
            if logits.shape != (2, width):
                raise ValueError(f"logits {list(logits.shape)} of states [2, 3, {hidden_size}]")
        except Exception as error:
            raise unfit("head", name, f"({hidden_size}, {width}): {error!r}", _CONTRACT) from error
        self.head.train()

    def forward(self, hidden: Tensor, batch: Batch) -> Tensor:
        logits: Tensor = self.head(hidden, batch["attention_mask"].to(hidden.device))
        return logits[:, self.order].float() * self.scale + self.shift


def build_head(task: Task, config: PreTrainedConfig) -> nn.Module:
    """Return a new head of a task for an encoder with ``config``: ``head(hidden, batch)`` gives the
    logits.
    """
    kind = task.kind
    if task.head is not None:
        return OwnHead(task.head, config.hidden_size, kind.width)
    match kind:
        case JointSpan():
            return JointSpanHead(config)
        case Reason():
            return StochasticAnswerNetwork(config, kind.width)
        case _:
            return TransformersHead(kind, config)
