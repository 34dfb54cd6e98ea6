"""MT-DNN's head for pairs: the stochastic answer network, which reads the first text several times
in the light of the second.

Plain ``transformers`` has no class for it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig

from road_ray.data.batching import Batch
from road_ray.models.encoder import initialize, initialize_output
from road_ray.models.heads.base import Head

STEPS = 5
_DROPPED = 0.1  # of inputs and, in training, of whole steps
_NEVER = float("-inf")


class StochasticAnswerNetwork(Head):
    """Log-probabilities of the classes, the mean of ``STEPS`` steps: ``[B, L, D] -> [B, width]``.

    In training each row drops some of its steps, but never all. A row without a second text reads
    its only one. Source: Liu et al. 2018 (SAN); Liu et al. 2019 (MT-DNN), section 3.
    """

    reads_batch = True

    def __init__(self, config: PreTrainedConfig, width: int) -> None:
        super().__init__()
        size = config.hidden_size
        self.dropout = nn.Dropout(_DROPPED)
        self.begin = nn.Linear(size, 1)
        self.look = nn.Linear(size, size)
        self.update = nn.GRUCell(size, size)
        self.classifier = nn.Linear(4 * size, width)
        initialize(self, config.initializer_range)
        initialize_output(self.classifier)

    def forward(self, hidden: Tensor, batch: Batch) -> Tensor:
        # A recurrence of a few vectors: little to gain in bf16, and probabilities are averaged.
        with torch.autocast(hidden.device.type, enabled=False):
            return self._answer(self.dropout(hidden.float()), batch)

    def _answer(self, hidden: Tensor, batch: Batch) -> Tensor:
        first, second = _sides(batch, hidden)
        state = _read(hidden, self.begin(hidden).squeeze(-1), second)
        steps = []
        for _ in range(STEPS):
            asked = self.look(state)[:, None]
            seen = _read(hidden, (hidden * asked).sum(-1), first)
            together = [state, seen, (state - seen).abs(), state * seen]
            steps.append(self.classifier(self.dropout(torch.cat(together, -1))).softmax(-1))
            state = self.update(seen, state)
        kept = self._kept_steps(hidden)
        mean = (torch.stack(steps, 1) * kept[..., None]).sum(1) / kept.sum(1, keepdim=True)
        return mean.clamp(min=1e-8).log()

    def _kept_steps(self, hidden: Tensor) -> Tensor:
        """``[B, STEPS]`` of ones, and zeros where a row drops a step."""
        kept = hidden.new_ones(len(hidden), STEPS)
        if self.training:
            chances = torch.rand_like(kept)
            kept = (chances > _DROPPED).float()
            kept.scatter_(1, chances.argmax(1, keepdim=True), 1.0)
        return kept


def _sides(batch: Batch, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Where the first and the second text stand, ``[B, L]`` each."""
    real = batch["attention_mask"].bool().to(hidden.device)
    second = (batch["token_type_ids"] == 1).to(hidden.device) & real
    alone = ~second.any(1, keepdim=True)
    return real & ~second, second | (real & alone)


def _read(hidden: Tensor, scores: Tensor, where: Tensor) -> Tensor:
    """The mean of the tokens that ``where`` allows, weighed by their scores: ``[B, D]``."""
    weights = scores.masked_fill(~where, _NEVER).softmax(-1)
    return (weights[..., None] * hidden).sum(1)
