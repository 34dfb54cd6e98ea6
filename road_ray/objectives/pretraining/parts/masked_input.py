"""Base class of the objectives that mask a part of the tokens: MLM and the ELECTRA family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.objectives.base import Objective
from road_ray.objectives.masking import choose, flat_positions, mask


class MaskingObjective(Objective):
    """Objective that chooses positions and masks most of them, by the noise of the batch.

    Source of the defaults: google electra, pretrain_helpers.py.
    """

    predicts_all: ClassVar[bool] = False
    """True where the loss reads every real token: ``prepare`` adds their positions, ``real``."""
    chosen_terms: ClassVar[tuple[str, ...]] = ()
    """Terms of the loss that are means over chosen positions."""
    real_terms: ClassVar[tuple[str, ...]] = ()
    """Terms of the loss that are means over real tokens."""

    def __init__(
        self,
        *,
        special_ids: Sequence[int],
        mask_id: int,
        choose_fraction: float = 0.15,
        mask_fraction: float = 0.85,
    ) -> None:
        super().__init__()
        self.special_ids = tuple(special_ids)
        self.mask_id = mask_id
        self.choose_fraction = choose_fraction
        self.mask_fraction = mask_fraction

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with the positions that the loss reads, as ``Objective.prepare``."""
        chosen = choose(
            batch["input_ids"],
            batch["attention_mask"],
            batch["noise"][0],
            special_ids=self.special_ids,
            fraction=self.choose_fraction,
        )
        prepared: Batch = {**super().prepare(batch), "chosen": flat_positions(chosen)}
        if self.predicts_all:
            prepared["real"] = flat_positions(batch["attention_mask"])
        return prepared

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        real = batch["attention_mask"].sum()
        chosen = torch.full((), len(batch["chosen"]), device=real.device)
        return dict.fromkeys(self.chosen_terms, chosen) | dict.fromkeys(self.real_terms, real)

    def hide(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the chosen positions and the masked tokens, ``[B, L]`` each."""
        tokens, positions = batch["input_ids"], batch["chosen"]
        chosen = torch.zeros_like(tokens, dtype=torch.bool).flatten()
        chosen = chosen.index_fill(0, positions, True).view_as(tokens)
        return chosen, mask(
            tokens,
            chosen,
            batch["noise"][1],
            mask_id=self.mask_id,
            mask_fraction=self.mask_fraction,
        )
