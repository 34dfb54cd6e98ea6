"""Masked language modelling against Hugging Face's own loss."""

from __future__ import annotations

import pytest
from torch.testing import assert_close

from road_ray.objectives.masking import choose, mask
from road_ray.objectives.pretraining.mlm import MaskedLanguageModel

SPECIAL, MASK = (0, 2, 3, 4), 4


@pytest.fixture
def objective(generator):
    return MaskedLanguageModel(generator, special_ids=SPECIAL, mask_id=MASK)


def test_loss_and_gradients_equal_those_over_the_whole_vocabulary(objective, batch):
    losses = objective(batch)
    term = losses.terms["mlm"]
    (term.total / term.count).backward()
    ours = {name: p.grad.clone() for name, p in objective.named_parameters()}
    objective.zero_grad()
    tokens, noise = batch["input_ids"], batch["noise"]
    chosen = choose(tokens, batch["attention_mask"], noise[0], special_ids=SPECIAL)
    outputs = objective.model(
        input_ids=mask(tokens, chosen, noise[1], mask_id=MASK),
        attention_mask=batch["attention_mask"],
        token_type_ids=batch["token_type_ids"],
        labels=tokens.masked_fill(~chosen, -100),
    )
    outputs.loss.backward()
    assert_close(term.total / term.count, outputs.loss)
    theirs = {name: p.grad for name, p in objective.named_parameters()}
    assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    right = (outputs.logits.argmax(-1) == tokens)[chosen].sum()
    assert losses.metrics["mlm_accuracy"] == (right, chosen.sum())
