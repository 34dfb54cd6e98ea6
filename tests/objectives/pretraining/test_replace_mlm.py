"""Replace MLM against Hugging Face's own loss on the corrupted input."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from transformers import ElectraForMaskedLM

from road_ray.objectives.pretraining.mlm import ReplaceMLM
from tests.objectives.conftest import MASK, SPECIAL, config_of


@pytest.fixture
def objective(generator):
    torch.manual_seed(2)
    model = ElectraForMaskedLM(config_of(32))
    return ReplaceMLM(generator, model, special_ids=SPECIAL, mask_id=MASK)


def test_the_loss_is_that_of_the_originals_at_chosen_positions(objective, batch):
    terms = objective(batch).terms
    made = objective.corrupted(objective.prepare(batch))
    outputs = objective.model(
        input_ids=made.tokens,
        attention_mask=batch["attention_mask"],
        token_type_ids=batch["token_type_ids"],
        labels=batch["input_ids"].masked_fill(~made.chosen, -100),
    )
    assert_close(terms["mlm"].total / terms["mlm"].count, outputs.loss)
    assert (terms["mlm"].weight, terms["generator"].weight) == (1.0, 1.0)


def test_the_model_never_sees_a_mask(objective, batch):
    made = objective.corrupted(objective.prepare(batch))
    originals = batch["input_ids"]
    assert ((made.tokens == MASK) <= (made.replaced | (originals == MASK))).all()
    assert torch.equal(made.tokens[~made.chosen], originals[~made.chosen])
    assert torch.equal(made.replaced, made.tokens != originals)


def test_one_table_serves_both_networks_and_both_heads(objective):
    table = objective.encoder.embeddings.word_embeddings.weight
    heads = (objective.model, objective.generator)
    assert all(model.get_output_embeddings().weight is table for model in heads)
