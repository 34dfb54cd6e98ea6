"""MC-BERT: at every position the main encoder chooses among a few tokens, or rejects them all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.models.language_model import decoder, prediction_states, states, vocabulary_logits
from road_ray.models.weight_tying import tie
from road_ray.objectives.base import Term
from road_ray.objectives.masking import corrupt
from road_ray.objectives.parts.candidates import candidate_logits, with_replacement
from road_ray.objectives.parts.corruption import CorruptingObjective, language_model
from road_ray.objectives.parts.generator import Generator
from road_ray.objectives.parts.sampling import predict


def choices(
    drawn: Tensor, gold: Tensor, replaced: Tensor, *, faithful: bool
) -> tuple[Tensor, Tensor]:
    """Candidates in slots 1.. and which of them count: ``[N, K - 1], [N], [N] -> [N, K - 1]`` each.

    Where a token is replaced the gold stands in slot 1; elsewhere rejecting, slot 0, is right. A
    drawn candidate that equals the gold would be right too, and is left out unless ``faithful``:
    the released code keeps it (science: section 3.1).
    """
    first = torch.where(replaced, gold, drawn[:, 0])
    candidates = torch.cat([first[:, None], drawn[:, 1:]], -1)
    counts = torch.ones_like(candidates, dtype=torch.bool)
    if not faithful:
        counts = candidates != gold[:, None]
        counts[:, 0] |= replaced
    return candidates, counts


class MCBert(CorruptingObjective):
    """A small generator (the "meta controller") corrupts masked positions and draws ``candidates``
    - 1 tokens for every position; the main encoder picks the original or "none of the above".

    The loss is the mean of the generator over chosen positions + ``discriminator_weight`` * the
    mean choice over real tokens. "None" has an embedding of its own. Source: MC-BERT, arXiv
    2006.05744 and its released code; special tokens are not masked here, our choice.
    """

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
        decoder(model).bias = decoder(generator).bias
        self.model = model
        self.discriminator_weight = discriminator_weight
        self.faithful = faithful
        self.noise_channels += candidates - 1
        width = model.get_input_embeddings().weight.shape[1]
        self.none = nn.Parameter(torch.randn(width) * float(model.config.initializer_range))
        self.none_bias = nn.Parameter(torch.zeros(1))

    def forward(self, batch: Batch) -> dict[str, Term]:
        tokens, real = batch["input_ids"], batch["attention_mask"].bool()
        chosen, masked = self.hide(batch)
        hidden = states(self.generator.base_model, masked, batch)[real]
        logits = vocabulary_logits(self.generator, hidden)
        at_chosen = chosen[real]
        found = predict(logits[at_chosen], tokens[chosen], batch["noise"][2][chosen])
        corrupted, replaced = corrupt(tokens, chosen, tokens.masked_scatter(chosen, found.sampled))
        drawn = with_replacement(logits, batch["noise"][3:, real].T.contiguous())
        candidates, counts = choices(drawn, tokens[real], replaced[real], faithful=self.faithful)
        state = prediction_states(self.model, states(self.encoder, corrupted, batch)[real])
        scores = self._scores(state, candidates).masked_fill(
            ~functional.pad(counts, (1, 0), value=True), float("-inf")
        )
        label = replaced[real].long()
        chosen_count, real_count = chosen.sum(), real.sum()
        said = scores.detach().argmax(-1)
        self.gauges = {
            "generator_accuracy": (found.right, chosen_count),
            "generator_entropy": (found.entropy, chosen_count),
            "replaced_fraction": (replaced.sum(), real_count),
            "choice_accuracy": ((said == label).sum(), real_count),
            "choice_accuracy_replaced": (((said == label) & (label == 1)).sum(), label.sum()),
        }
        choice = functional.cross_entropy(scores, label, reduction="sum")
        return {
            "generator": Term(found.loss, chosen_count),
            "choice": Term(choice, real_count, self.discriminator_weight),
        }

    def _scores(self, state: Tensor, candidates: Tensor) -> Tensor:
        """``[N, E], [N, K - 1] -> [N, K]``, in fp32, "none of the above" first."""
        layer = decoder(self.model)
        listed = candidate_logits(state, layer.weight, candidates) + layer.bias[candidates]
        none = state.to(self.none.dtype) @ self.none + self.none_bias
        return torch.cat([none[:, None].float(), listed.float()], -1)

    def export(self, directory: Path) -> None:
        self.export_pair(directory, self.model)
