"""ELECTRA 15%: detection that is judged at the chosen positions only."""

from __future__ import annotations

from road_ray.data.batching import Batch
from road_ray.models.language_model import detection_scores
from road_ray.objectives.base import Term
from road_ray.objectives.electra import Electra
from road_ray.objectives.parts.detection import detection_gauges, detection_losses


class ElectraMasked(Electra):
    """As ``Electra``, but the detection loss is the mean over chosen positions.

    What it lacks beside ELECTRA is what learning from all tokens is worth. Source: Clark et al.
    2020, section 3.5 and table 5 ("ELECTRA 15%"); the weight is ELECTRA's, our choice.
    """

    def forward(self, batch: Batch) -> dict[str, Term]:
        made = self.corrupted(batch)
        scores = detection_scores(self.discriminator, made.tokens, batch)
        detection = (detection_losses(scores, made.replaced) * made.chosen).sum()
        self.gauges |= detection_gauges(scores, made.replaced, made.chosen)
        return made.terms | {
            "discriminator": Term(detection, made.chosen.sum(), self.discriminator_weight)
        }
