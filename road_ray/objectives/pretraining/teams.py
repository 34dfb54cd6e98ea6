"""TEAMS: detection everywhere and the choice among a few tokens at masked positions."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.errors import ConfigError
from road_ray.models.attention import padded_states
from road_ray.models.encoder import initialize, initialize_output
from road_ray.models.language_model import (
    decoder,
    prediction_states,
    share_layers,
    states,
    tie,
    vocabulary_logits,
)
from road_ray.objectives.base import Losses, Term
from road_ray.objectives.masking import invert, rows_at
from road_ray.objectives.pretraining.electra import (
    DETECTION_METRICS,
    detection_losses,
    detection_metrics,
)
from road_ray.objectives.pretraining.generator import CorruptingObjective, Generator, language_model
from road_ray.objectives.pretraining.mc_bert import candidate_logits


class Teams(CorruptingObjective):
    """Generator, detection of replaced tokens and multi-word selection, trained together.

    The main encoder's last layer serves the selection; the detection has a last layer of its own,
    fed by the one below. The lowest ``shared_layers`` layers are shared with the generator. The
    loss is the mean generator loss + ``discriminator_weight`` * the mean detection loss over real
    tokens + ``selection_weight`` * the mean selection loss over chosen positions. Source: TEAMS,
    arXiv 2106.00139, weights from official/projects/teams.
    """

    metric_names = (
        "discriminator",
        "selection",
        *CorruptingObjective.metric_names,
        *DETECTION_METRICS,
        "selection_accuracy",
    )
    chosen_terms = ("generator", "selection")
    real_terms = ("discriminator",)

    def __init__(
        self,
        generator: Generator,
        model: PreTrainedModel,
        *,
        discriminator_weight: float = 5.0,
        selection_weight: float = 2.0,
        candidates: int = 5,
        shared_layers: int = 3,
        **corruption: Any,
    ) -> None:
        generator = language_model(generator, "teams")
        super().__init__(generator, model, **corruption)
        tie(model)
        decoder(model).bias.requires_grad_(False)  # unused here; DDP would wait for its gradient
        layers = getattr(getattr(self.encoder, "encoder", None), "layer", None)
        if layers is None:
            raise ConfigError(
                "objective.name = teams: this encoder has no stack of layers of their own\n"
                "  allowed: encoder.family electra or bert"
            )
        share_layers(generator, model, shared_layers)
        self.model = model
        self.discriminator_weight = discriminator_weight
        self.selection_weight = selection_weight
        self.noise_channels += candidates - 1
        std, width = float(model.config.initializer_range), int(model.config.hidden_size)
        config = self.encoder.config  # not copied: it says how all layers attend
        self.detection_layer = deepcopy(layers[-1], {id(config): config})
        self._last_inputs: tuple[tuple[Any, ...], dict[str, Any]] = (), {}
        layers[-1].register_forward_pre_hook(self._record, with_kwargs=True)
        initialize(self.detection_layer, std)
        output = nn.Linear(width, 1)
        self.detection_head = nn.Sequential(nn.Linear(width, width), nn.GELU(), output)
        initialize(self.detection_head, std)
        initialize_output(output)

    def forward(self, batch: Batch) -> Losses:
        real, positions = batch["attention_mask"], batch["chosen"]
        chosen, masked = self.hide(batch)
        drafted = rows_at(states(self.generator.base_model, masked, batch), positions)
        logits = vocabulary_logits(self.generator, drafted)
        corruption = self.replaced_by(self.draw_from(logits, batch), chosen, batch)
        hidden, branched = self._both_last_layers(corruption.tokens, batch)
        scores = self.detection_head(branched).squeeze(-1).float()
        labels, count = corruption.labels, chosen.sum()
        noise = batch["noise"][3:].flatten(1)[:, positions].T.contiguous()
        alternatives = without_replacement(logits, labels, noise)
        candidates = torch.cat([labels[:, None], alternatives], -1)
        state = prediction_states(self.model, rows_at(hidden, positions))
        selected = candidate_logits(state, decoder(self.model).weight, candidates).float()
        selection = functional.cross_entropy(selected, torch.zeros_like(labels), reduction="sum")
        detection = (detection_losses(scores, corruption.replaced) * real).sum()
        return Losses(
            corruption.terms
            | {
                "discriminator": Term(detection, real.sum(), self.discriminator_weight),
                "selection": Term(selection, count, self.selection_weight),
            },
            corruption.metrics
            | detection_metrics(scores, corruption.replaced, real.bool())
            | {"selection_accuracy": ((selected.detach().argmax(-1) == 0).sum(), count)},
        )

    def _both_last_layers(self, tokens: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the states after the selection's and the detection's last layer, ``[B, L, D]``
        each.
        """
        hidden = states(self.encoder, tokens, batch)
        (arguments, keywords), self._last_inputs = self._last_inputs, ((), {})
        branched = self.detection_layer(*arguments, **keywords)
        # Layers of DeBERTa-v2 and MPNet return a tuple.
        branched = branched[0] if isinstance(branched, tuple) else branched
        return hidden, padded_states(branched, keywords)

    def _record(self, _: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self._last_inputs = arguments, keywords


def without_replacement(logits: Tensor, excluded: Tensor, noise: Tensor) -> Tensor:
    """Return distinct ids other than ``excluded``: ``[N, V], [N], [N, K] -> [N, K]``; no gradient.

    Each is drawn from the ids that remain, which has the distribution of Gumbel top-k. Source:
    TEAMS, official/projects/teams.
    """
    remaining = torch.softmax(logits.detach().float(), -1)
    taken = [excluded]
    for number in noise.unbind(-1):
        remaining.scatter_(1, taken[-1][:, None], 0.0)
        # A generator that is certain leaves no probability. Then any other id is drawn, as with the
        # logit penalty of TEAMS.
        empty = remaining.sum(-1) <= 0
        other = _any_other(torch.stack(taken, -1), number, remaining.shape[-1])
        taken.append(torch.where(empty, other, invert(remaining, number)))
    return torch.stack(taken[1:], -1)


def _any_other(taken: Tensor, noise: Tensor, size: int) -> Tensor:
    """Return a uniform draw from the ids below ``size`` that are not taken: ``[N, T], [N] ->
    [N]``.
    """
    rest = size - taken.shape[-1]
    drawn = (noise * rest).long().clamp(max=rest - 1)
    for before in taken.sort(-1).values.unbind(-1):
        drawn = drawn + (drawn >= before)
    return drawn
