"""What generators and main encoders have in common, and the second of two stages."""

from __future__ import annotations

import pytest
import torch
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from road_ray.errors import ConfigError
from road_ray.objectives.pretraining.electra import Electra
from road_ray.objectives.pretraining.generator import Frequencies
from tests.objectives.conftest import MASK, SPECIAL, VOCAB, config_of

OPTIONS = {"special_ids": SPECIAL, "mask_id": MASK}


def encoders(electra):
    return electra.generator.electra, electra.discriminator.electra


def test_tying_all_is_refused_between_sizes(generator, discriminator):
    with pytest.raises(ConfigError, match=r"tying = all.*differ in size"):
        Electra(generator, discriminator, tying="all", **OPTIONS)


def test_tables_of_two_widths_are_refused(discriminator):
    generator = ElectraForMaskedLM(config_of(16, embedding_size=8))
    with pytest.raises(ConfigError, match=r"\(97, 8\) and \(97, 16\)"):
        Electra(generator, discriminator, **OPTIONS)


def test_a_frozen_generator_draws_and_does_not_learn(discriminator, batch):
    generator = ElectraForMaskedLM(config_of(16, hidden_dropout_prob=0.5)).requires_grad_(False)
    electra = Electra(generator, discriminator, tying="none", **OPTIONS).train()
    assert not electra.generator.training
    assert electra.discriminator.training
    losses = electra(batch)
    terms = losses.terms
    assert set(terms) == {"discriminator"}
    terms["discriminator"].total.backward()
    assert all(p.grad is None for p in generator.parameters())
    assert float(losses.metrics["replaced_fraction"][0]) > 0
    with pytest.raises(ConfigError, match=r"frozen generator with generator\.tying = embeddings"):
        Electra(generator, discriminator, **OPTIONS)


def test_frequencies_corrupt_too_and_are_not_exported(discriminator, batch, tmp_path):
    chances = torch.ones(VOCAB)
    chances[list(SPECIAL)] = 0
    electra = Electra(Frequencies(chances), discriminator, **OPTIONS)
    assert set(electra(batch).terms) == {"discriminator"}
    made = electra.corrupted(electra.prepare(batch))
    assert not torch.isin(made.tokens[made.chosen], torch.tensor(SPECIAL)).any()
    electra.export(tmp_path)
    assert not (tmp_path / "generator").exists()
    ElectraForPreTraining.from_pretrained(tmp_path)


def test_every_replaced_token_is_chosen_and_metrics_are_those_of_the_generator(
    generator, discriminator, batch
):
    electra = Electra(generator, discriminator, disallow_correct=True, **OPTIONS)
    made = electra.corrupted(electra.prepare(batch))
    assert torch.equal(made.replaced, made.chosen)
    total, count = made.metrics["generator_entropy"]
    assert 0 < float(total / count) <= torch.tensor(float(VOCAB)).log()
