"""TEAMS: two last layers over one stack, shared lowest layers, multi-word selection."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from transformers import AlbertConfig, AlbertForMaskedLM, AutoModelForMaskedLM, ElectraForMaskedLM

from road_ray.errors import ConfigError
from road_ray.objectives.pretraining.teams import Teams
from tests.objectives.conftest import MASK, SPECIAL, VOCAB, config_of
from tests.published import publish


def made(**options):
    torch.manual_seed(2)
    generator = ElectraForMaskedLM(config_of(32))
    model = ElectraForMaskedLM(config_of(32))
    settings = {"candidates": 3, "shared_layers": 1} | options
    return Teams(generator, model, special_ids=SPECIAL, mask_id=MASK, **settings)


@pytest.fixture
def objective():
    return made()


@pytest.fixture
def wide(batch):
    return batch | {"noise": torch.rand(5, 5, 24, generator=torch.Generator().manual_seed(4))}


def test_the_lowest_layer_is_one_and_the_others_are_not(objective):
    ours, theirs = objective.encoder.encoder.layer, objective.generator.electra.encoder.layer
    assert ours[0] is theirs[0]
    assert ours[1] is not theirs[1]


def test_counts_and_weights(objective, wide):
    terms = objective(wide).terms
    counts = {name: (int(term.count), term.weight) for name, term in terms.items()}
    assert counts == {"generator": (10, 1.0), "discriminator": (57, 5.0), "selection": (10, 2.0)}


def test_detection_passes_its_own_last_layer_only(objective, wide):
    objective(wide).terms["discriminator"].total.backward()
    last = objective.encoder.encoder.layer[-1]
    assert all(p.grad is None for p in last.parameters())
    assert all(p.grad is not None for p in objective.detection_layer.parameters())
    objective.zero_grad()
    objective(wide).terms["selection"].total.backward()
    assert all(p.grad is not None for p in last.parameters())
    assert all(p.grad is None for p in objective.detection_layer.parameters())


@pytest.mark.parametrize("family", ["deberta-v2", "mpnet", "roberta"])
def test_a_family_of_init_runs_its_last_layer_twice(family, batch, tmp_path):
    publish(tmp_path, family, "ForMaskedLM", layers=3)
    generator, model = (AutoModelForMaskedLM.from_pretrained(tmp_path) for _ in range(2))
    settings = {"candidates": 3, "shared_layers": 1, "special_ids": SPECIAL, "mask_id": MASK}
    objective = Teams(generator, model, **settings)
    tokens = batch["input_ids"] % model.config.vocab_size
    batch = batch | {"input_ids": tokens, "noise": torch.rand(5, 5, 24)}
    terms = objective(batch).terms.values()
    sum(term.total for term in terms).backward()
    assert [n for n, p in objective.named_parameters() if p.requires_grad and p.grad is None] == []
    objective.eval()
    objective.detection_layer.load_state_dict(objective.encoder.encoder.layer[-1].state_dict())
    hidden, branched = objective._both_last_layers(tokens, batch)
    assert_close(hidden, branched)


def test_a_model_that_knows_the_gold_selects_it(objective, wide):
    tokens = wide["input_ids"]
    terms = objective(wide).terms
    chosen, _ = objective.hide(objective.prepare(wide))
    # Candidates alike score alike: the mean loss of a model that knows nothing is log 3.
    with torch.no_grad():
        objective.model.generator_predictions.LayerNorm.weight.zero_()
        objective.model.generator_predictions.LayerNorm.bias.zero_()
    even = objective(wide).terms["selection"]
    assert float(even.total.detach() / even.count) == pytest.approx(torch.tensor(3.0).log().item())
    assert int(terms["selection"].count) == len(tokens[chosen])


def test_layers_that_cannot_be_shared_are_refused(generator):
    with pytest.raises(ConfigError, match="shared_layers = 3"):
        made(shared_layers=3)
    with pytest.raises(ConfigError, match=r"generator\.scale=1\.0"):
        Teams(
            generator,
            ElectraForMaskedLM(config_of(32)),
            special_ids=SPECIAL,
            mask_id=MASK,
            shared_layers=1,
        )


def test_an_encoder_of_one_repeated_layer_is_refused():
    config = AlbertConfig(
        vocab_size=VOCAB,
        embedding_size=16,
        hidden_size=32,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    model, generator = AlbertForMaskedLM(config), ElectraForMaskedLM(config_of(32))
    with pytest.raises(ConfigError, match="no stack of layers"):
        Teams(generator, model, special_ids=SPECIAL, mask_id=MASK, shared_layers=0)
