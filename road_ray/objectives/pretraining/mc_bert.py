"""MC-BERT: at every position the main encoder chooses among a few tokens, or rejects them all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.models.language_model import (
    decoder,
    prediction_states,
    states,
    tie,
    vocabulary_logits,
)
from road_ray.objectives.base import Losses, Term
from road_ray.objectives.masking import invert, rows_at
from road_ray.objectives.pretraining.generator import CorruptingObjective, Generator, language_model


class MCBert(CorruptingObjective):
    """A small generator (the "meta controller") corrupts masked positions and draws ``candidates``
    - 1 tokens for every position; the main encoder picks the original or "none of the above".

    The loss is the mean generator loss over chosen positions + ``discriminator_weight`` * the mean
    cross-entropy of the choice over real tokens. "None" has an embedding of its own. Source:
    MC-BERT, arXiv 2006.05744 and its released code; special tokens are not masked here, our choice.
    """

    metric_names = (
        "choice",
        *CorruptingObjective.metric_names,
        "choice_accuracy",
        "choice_accuracy_replaced",
    )
    chosen_terms = ("generator",)
    real_terms = ("choice",)
    predicts_all = True

    def __init__(
        self,
        generator: Generator,
        model: PreTrainedModel,
        *,
        mask_fraction: float = 1.0,
        discriminator_weight: float = 50.0,
        candidates: int = 10,
        faithful: bool = False,
        **corruption: Any,
    ) -> None:
        generator = language_model(generator, "mc_bert")
        super().__init__(generator, model, mask_fraction=mask_fraction, **corruption)
        tie(model)
        own, shared = decoder(model).bias, decoder(generator).bias
        for module in model.modules():  # BERT, ALBERT and RoBERTa have the bias in the head too
            if getattr(module, "bias", None) is own:
                module.bias = shared
        self.model = model
        self.discriminator_weight = discriminator_weight
        self.faithful = faithful
        self.noise_channels += candidates - 1
        width = model.get_input_embeddings().weight.shape[1]
        self.none = nn.Parameter(torch.randn(width) * float(model.config.initializer_range))
        self.none_bias = nn.Parameter(torch.zeros(1))

    def forward(self, batch: Batch) -> Losses:
        real = batch["real"]
        chosen, masked = self.hide(batch)
        hidden = rows_at(states(self.generator.base_model, masked, batch), real)
        logits = vocabulary_logits(self.generator, hidden)
        # Chosen positions are real ones too: their logits are rows of these.
        of_chosen = logits.index_select(0, torch.searchsorted(real, batch["chosen"]))
        corruption = self.replaced_by(self.draw_from(of_chosen, batch), chosen, batch)
        noise = batch["noise"][3:].flatten(1)[:, real].T.contiguous()
        alternatives = invert(torch.softmax(logits.detach().float(), -1), noise)
        labels, fake = rows_at(batch["input_ids"], real), rows_at(corruption.replaced, real)
        candidates, counts = choices(alternatives, labels, fake, faithful=self.faithful)
        hidden = rows_at(states(self.encoder, corruption.tokens, batch), real)
        state = prediction_states(self.model, hidden)
        scores = self._scores(state, candidates).masked_fill(
            ~functional.pad(counts, (1, 0), value=True), float("-inf")
        )
        choice, count = fake.long(), batch["attention_mask"].sum()
        is_correct = scores.detach().argmax(-1) == choice
        loss = functional.cross_entropy(scores, choice, reduction="sum")
        return Losses(
            corruption.terms | {"choice": Term(loss, count, self.discriminator_weight)},
            corruption.metrics
            | {
                "choice_accuracy": (is_correct.sum(), count),
                "choice_accuracy_replaced": ((is_correct & (choice == 1)).sum(), choice.sum()),
            },
        )

    def _scores(self, state: Tensor, candidates: Tensor) -> Tensor:
        """Return the scores ``[N, E], [N, K - 1] -> [N, K]`` in fp32, "none of the above" first."""
        layer = decoder(self.model)
        listed = candidate_logits(state, layer.weight, candidates) + layer.bias[candidates]
        none = state.to(self.none.dtype) @ self.none + self.none_bias
        return torch.cat([none[:, None].float(), listed.float()], -1)


def choices(
    drawn: Tensor, labels: Tensor, replaced: Tensor, *, faithful: bool
) -> tuple[Tensor, Tensor]:
    """Return the candidates from slot 1 on, and a mask of those that count.

    ``[N, K - 1], [N], [N] -> [N, K - 1]`` each. If a token is replaced, its original is in slot 1;
    otherwise slot 0, "none of the above", is correct. A drawn candidate that equals the original
    would also be correct and does not count, except with ``faithful``: the released code counts it.
    """
    first = torch.where(replaced, labels, drawn[:, 0])
    candidates = torch.cat([first[:, None], drawn[:, 1:]], -1)
    counts = torch.ones_like(candidates, dtype=torch.bool)
    if not faithful:
        counts = candidates != labels[:, None]
        counts[:, 0] |= replaced
    return candidates, counts


def candidate_logits(state: Tensor, table: Tensor, candidates: Tensor) -> Tensor:
    """Return the dot products with candidates' embeddings: ``[N, E], [V, E], [N, K] -> [N, K]``."""
    rows = functional.embedding(candidates, table)
    return torch.einsum("ne,nke->nk", state.to(rows.dtype), rows)
