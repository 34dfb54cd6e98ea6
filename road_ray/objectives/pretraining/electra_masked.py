"""ELECTRA 15%: detection loss at the chosen positions only."""

from __future__ import annotations

from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.objectives.pretraining.electra import Electra
from road_ray.objectives.pretraining.generator import Corruption


class ElectraMasked(Electra):
    """``Electra`` with a detection loss that is the mean over chosen positions only.

    Its difference from ELECTRA measures the gain of learning from all tokens. Source: Clark et al.
    2020, section 3.5 and table 5 ("ELECTRA 15%"); the weight is ELECTRA's, our choice.
    """

    chosen_terms = ("generator", "discriminator")
    real_terms = ()

    def counted(self, corruption: Corruption, batch: Batch) -> Tensor:
        return corruption.chosen
