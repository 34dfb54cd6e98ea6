"""MT-DNN's head for text pairs: the stochastic answer network, with several reasoning steps.

``transformers`` has no class for it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig

from road_ray.data.batching import Batch, second_text
from road_ray.models.encoder import initialize, initialize_output

STEPS = 5
_DROPOUT = 0.1  # of inputs and, in training, of whole steps
_MASKED = float("-inf")


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
        first, second = _sides(batch, hidden)
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


def _sides(batch: Batch, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Return the masks of the first and the second text, ``[B, L]`` each."""
    real = batch["attention_mask"].bool().to(hidden.device)
    marks = second_text(batch)
    second = torch.zeros_like(real) if marks is None else (marks == 1).to(hidden.device) & real
    alone = ~second.any(1, keepdim=True)
    return real & ~second, second | (real & alone)


def _attend(hidden: Tensor, scores: Tensor, where: Tensor) -> Tensor:
    """Return the mean of the tokens in the mask ``where``, weighted by their scores: ``[B, D]``."""
    weights = scores.masked_fill(~where, _MASKED).softmax(-1)
    return (weights[..., None] * hidden).sum(1)
