"""ELECTRA's span head: the end is predicted given the start, "no answer" by a classifier.

``transformers`` has no class for it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig

from road_ray.data.batching import Batch, allowed_positions
from road_ray.models.encoder import initialize, initialize_output

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
        unanswered = self._impossible(hidden, start)[:, None].expand_as(start)
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

    def _impossible(self, hidden: Tensor, start: Tensor) -> Tensor:
        """Return the logit of no answer, from first token and expected start: ``-> [B]``."""
        expected = (start.softmax(-1)[..., None] * hidden).sum(1).to(hidden.dtype)
        dense = self.impossible_dense(torch.cat([hidden[:, 0], expected], -1))
        logit: Tensor = self.impossible(functional.gelu(dense)).squeeze(-1).float()
        return logit
