"""Base class of the objectives that mask a part of the tokens: MLM and the ELECTRA family."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.objectives.base import Objective
from road_ray.objectives.masking import choose, mask


class MaskingObjective(Objective):
    """Objective that chooses positions and masks most of them, by the noise of the batch.

    Source of the defaults: google electra, pretrain_helpers.py.
    """

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

    def hide(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the chosen positions and the masked tokens, ``[B, L]`` each."""
        tokens, noise = batch["input_ids"], batch["noise"]
        chosen = choose(
            tokens,
            batch["attention_mask"],
            noise[0],
            special_ids=self.special_ids,
            fraction=self.choose_fraction,
        )
        return chosen, mask(
            tokens, chosen, noise[1], mask_id=self.mask_id, mask_fraction=self.mask_fraction
        )
