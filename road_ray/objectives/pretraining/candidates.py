"""Objectives that choose among a few tokens: at every position or reject them all (MC-BERT), or at
masked positions beside the detection everywhere (TEAMS).
"""

from copy import deepcopy
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from road_ray.data.batching import Batch
from road_ray.errors import ConfigError
from road_ray.models.attention import padded_states
from road_ray.models.encoder import initialize, initialize_output
from road_ray.models.language_model import decoder, prediction_states, share_layers, states, tie
from road_ray.objectives.base import Losses, Term
from road_ray.objectives.masking import invert, rows_at
from road_ray.objectives.pretraining.electra import (
    DETECTION_METRICS,
    detection_losses,
    detection_metrics,
)
from road_ray.objectives.pretraining.generator import (
    GENERATOR_METRICS,
    CorruptingObjective,
    Terms,
)


class MCBert(CorruptingObjective):
    """A small generator (the "meta controller") corrupts masked positions and draws ``candidates``
    - 1 tokens for every position; the main encoder picks the original or "none of the above".

    The loss is the mean generator loss over chosen positions + ``discriminator_weight`` * the mean
    cross-entropy of the choice over real tokens. "None" has an embedding of its own. Source:
    MC-BERT, arXiv 2006.05744 and its released code; special tokens are not masked here, our choice.
    """

    terms: ClassVar[Terms] = {"generator": "chosen", "choice": "real"}
    metric_names = (*terms, *GENERATOR_METRICS, "choice_accuracy", "choice_accuracy_replaced")
    predicts_all = True
    generator_at = "real"

    def __init__(
        self,
        generator: PreTrainedModel,
        model: PreTrainedModel,
        *,
        mask_fraction: float = 1.0,
        discriminator_weight: float = 50.0,
        candidates: int = 10,
        **corruption: Any,
    ) -> None:
        super().__init__(generator, model, mask_fraction=mask_fraction, **corruption)
        tie(model)
        own, shared = decoder(model).bias, decoder(generator).bias
        for module in model.modules():  # BERT, ALBERT and RoBERTa have the bias in the head too
            if getattr(module, "bias", None) is own:
                module.bias = shared
        self.model = model
        self.discriminator_weight = discriminator_weight
        self.noise_channels += candidates - 1
        width = model.get_input_embeddings().weight.shape[1]
        self.none = nn.Parameter(torch.randn(width) * float(model.config.initializer_range))
        self.none_bias = nn.Parameter(torch.zeros(1))

    def forward(self, batch: Batch) -> Losses:
        real, corruption = batch["real"], self.corrupted(batch)
        noise = batch["noise"][3:].flatten(1)[:, real].T.contiguous()
        alternatives = invert(torch.softmax(corruption.logits.detach().float(), -1), noise)
        labels, fake = rows_at(batch["input_ids"], real), rows_at(corruption.replaced, real)
        candidates, counts = choices(alternatives, labels, fake)
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


def choices(drawn: Tensor, labels: Tensor, replaced: Tensor) -> tuple[Tensor, Tensor]:
    """Return the candidates from slot 1 on, and a mask of those that count.

    ``[N, K - 1], [N], [N] -> [N, K - 1]`` each. If a token is replaced, its original is in slot 1;
    otherwise slot 0, "none of the above", is correct. A drawn candidate that equals the original
    would also be correct and does not count; in the released code it does.
    """
    first = torch.where(replaced, labels, drawn[:, 0])
    candidates = torch.cat([first[:, None], drawn[:, 1:]], -1)
    counts = candidates != labels[:, None]
    counts[:, 0] |= replaced
    return candidates, counts


def candidate_logits(state: Tensor, table: Tensor, candidates: Tensor) -> Tensor:
    """Return the dot products with candidates' embeddings: ``[N, E], [V, E], [N, K] -> [N, K]``."""
    rows = functional.embedding(candidates, table)
    return torch.einsum("ne,nke->nk", state.to(rows.dtype), rows)


class Teams(CorruptingObjective):
    """Generator, detection of replaced tokens and multi-word selection, trained together.

    The main encoder's last layer serves the selection; the detection has a last layer of its own,
    fed by the one below. The lowest ``shared_layers`` layers are shared with the generator. The
    loss is the mean generator loss + ``discriminator_weight`` * the mean detection loss over real
    tokens + ``selection_weight`` * the mean selection loss over chosen positions. Source: TEAMS,
    arXiv 2106.00139, weights from official/projects/teams.
    """

    terms: ClassVar[Terms] = {"generator": "chosen", "selection": "chosen", "discriminator": "real"}
    metric_names = (*terms, *GENERATOR_METRICS, *DETECTION_METRICS, "selection_accuracy")
    generator_at = "chosen"

    def __init__(
        self,
        generator: PreTrainedModel,
        model: PreTrainedModel,
        *,
        discriminator_weight: float = 5.0,
        selection_weight: float = 2.0,
        candidates: int = 5,
        shared_layers: int = 3,
        **corruption: Any,
    ) -> None:
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
        corruption = self.corrupted(batch)
        hidden, branched = self._both_last_layers(corruption.tokens, batch)
        scores = self.detection_head(branched).squeeze(-1).float()
        labels, count = corruption.labels, corruption.chosen.sum()
        noise = batch["noise"][3:].flatten(1)[:, positions].T.contiguous()
        alternatives = without_replacement(corruption.logits, labels, noise)
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
        """Return the states ``[B, L, D]`` after the last layers of selection and of detection."""
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

    Each is drawn from the ids that remain, which has the distribution of Gumbel top-k; id 0 where
    all of these have probability 0. Source: TEAMS, official/projects/teams.
    """
    remaining = torch.softmax(logits.detach().float(), -1)
    taken = [excluded]
    for number in noise.unbind(-1):
        remaining.scatter_(1, taken[-1][:, None], 0.0)
        taken.append(invert(remaining, number))
    return torch.stack(taken[1:], -1)
