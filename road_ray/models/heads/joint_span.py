"""ELECTRA's own head for questions: the end is chosen given the start, "no answer" by a classifier.

Plain ``transformers`` has no class for it, so what it is saved as is told here too.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig

from road_ray.data.batching import Batch, allowed_positions
from road_ray.models.encoder import initialize, initialize_output
from road_ray.models.heads.base import Head

BEAM = 20
_WIDTH = 512
_NEVER = float("-inf")


class JointSpanHead(Head):
    """``[B, L, D] -> [B, 3, L]`` with gold: start logits, logits of the end given the gold start,
    and in every place the logit that there is no answer.

    Without gold ``-> [B, 2 + K, L]``: log-probabilities of the start, the logit of no answer in
    every place, and for each of the K best starts those of its ends, ``-inf`` before the start.
    Source: google-research/electra, finetune/qa/qa_tasks.py.
    """

    reads_batch = True

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
        start = self.start(hidden).squeeze(-1).float().masked_fill(~allowed, _NEVER)
        unanswered = self._impossible(hidden, start)[:, None].expand_as(start)
        if "start_positions" in batch:
            gold = batch["start_positions"].clamp(min=0)  # unknown gold is not counted later
            return torch.stack([start, self._ends(hidden, gold, allowed), unanswered], 1)
        first = start.log_softmax(-1)
        rows = [first, unanswered]
        places = torch.arange(start.shape[1], device=hidden.device)
        for begin in first.topk(min(BEAM, start.shape[1])).indices.unbind(1):
            ends = self._ends(hidden, begin, allowed).log_softmax(-1)
            barred = first.gather(1, begin[:, None]) == _NEVER  # fewer starts than the beam is wide
            rows.append(ends.masked_fill(barred | (places < begin[:, None]), _NEVER))
        return torch.stack(rows, 1)

    def _ends(self, hidden: Tensor, start: Tensor, allowed: Tensor) -> Tensor:
        """Logits of the end for one start a row: ``[B, L, D], [B] -> [B, L]``."""
        begin = hidden[torch.arange(len(hidden), device=hidden.device), start]
        both = torch.cat([begin[:, None].expand_as(hidden), hidden], -1)
        logits: Tensor = self.end(functional.gelu(self.end_dense(both))).squeeze(-1).float()
        return logits.masked_fill(~allowed, _NEVER)

    def _impossible(self, hidden: Tensor, start: Tensor) -> Tensor:
        """The logit of no answer, from the first token and the expected start: ``-> [B]``."""
        expected = (start.softmax(-1)[..., None] * hidden).sum(1).to(hidden.dtype)
        dense = self.impossible_dense(torch.cat([hidden[:, 0], expected], -1))
        logit: Tensor = self.impossible(functional.gelu(dense)).squeeze(-1).float()
        return logit
