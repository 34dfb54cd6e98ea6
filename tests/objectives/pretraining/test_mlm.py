"""Masked language modelling against Hugging Face's own loss, on masked and corrupted input; the
gate that copies, a mixture of two distributions in logarithms.
"""

import math

import pytest
import torch
from torch.testing import assert_close
from transformers import ElectraForMaskedLM

from road_ray.objectives.masking import choose, mask
from road_ray.objectives.pretraining.mlm import (
    AllTokensMLM,
    MaskedLanguageModel,
    ReplaceMLM,
    copy_losses,
)
from tests.objectives.conftest import MASK, OPTIONS, SPECIAL, config_of, rest


def test_loss_and_gradients_equal_those_over_the_whole_vocabulary(generator, batch):
    objective = MaskedLanguageModel(generator, **OPTIONS)
    losses = objective(batch)
    term = losses.terms["mlm"]
    (term.total / term.count).backward()
    ours = {name: p.grad.clone() for name, p in objective.named_parameters()}
    objective.zero_grad()
    tokens, noise = batch["input_ids"], batch["noise"]
    chosen = choose(tokens, batch["attention_mask"], noise[0], special_ids=SPECIAL)
    outputs = objective.model(
        input_ids=mask(tokens, chosen, noise[1], mask_id=MASK),
        **rest(batch),
        labels=tokens.masked_fill(~chosen, -100),
    )
    outputs.loss.backward()
    assert_close(term.total / term.count, outputs.loss)
    theirs = {name: p.grad for name, p in objective.named_parameters()}
    assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    right = (outputs.logits.argmax(-1) == tokens)[chosen].sum()
    assert losses.metrics["mlm_accuracy"] == (right, chosen.sum())


def test_the_loss_is_that_of_the_originals_at_chosen_positions(generator, batch):
    torch.manual_seed(2)
    objective = ReplaceMLM(generator, ElectraForMaskedLM(config_of(32)), **OPTIONS)
    terms = objective(batch).terms
    made = objective.corrupted(objective.prepare(batch))
    outputs = objective.model(
        input_ids=made.tokens,
        **rest(batch),
        labels=batch["input_ids"].masked_fill(~made.chosen, -100),
    )
    assert_close(terms["mlm"].total / terms["mlm"].count, outputs.loss)
    assert (terms["mlm"].weight, terms["generator"].weight) == (1.0, 1.0)


def test_copy_losses_by_hand():
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25]])).repeat(2, 1)
    gate = torch.full((2,), math.log(3))  # D = 3/4
    losses = copy_losses(logits, gate, torch.tensor([1, 1]), torch.tensor([True, False]))
    # 3/4 + 1/4 * 1/4 where the input is the original, 1/4 * 1/4 where it is not
    assert losses.tolist() == pytest.approx([-math.log(0.8125), -math.log(0.0625)], rel=1e-5)


def test_the_limit_of_a_sure_gate_is_stable():
    logits = torch.zeros(2, 5)
    gate = torch.tensor([200.0, -200.0], requires_grad=True)
    losses = copy_losses(logits, gate, torch.tensor([0, 0]), torch.tensor([True, True]))
    assert losses.tolist() == pytest.approx([0.0, math.log(5)])
    wrong = copy_losses(logits, gate, torch.tensor([0, 0]), torch.tensor([False, False]))
    assert wrong.tolist() == pytest.approx([200 + math.log(5), math.log(5)])
    (losses + wrong).sum().backward()
    assert gate.grad.isfinite().all()


def test_all_real_tokens_count(generator, batch):
    model = ElectraForMaskedLM(config_of(32))
    objective = AllTokensMLM(generator, model, **OPTIONS)
    terms = objective(batch).terms
    assert int(terms["mlm"].count) == 57
    made, real = objective.corrupted(objective.prepare(batch)), batch["attention_mask"].bool()
    hidden = objective.encoder(
        input_ids=made.tokens,
        **rest(batch),
    ).last_hidden_state
    state = model.generator_predictions(hidden[real])
    chances = torch.softmax(model.generator_lm_head(state), -1)
    share = torch.sigmoid(objective.copy(hidden[real]))
    mixed = share * torch.nn.functional.one_hot(made.tokens[real], 60) + (1 - share) * chances
    expected = -mixed.gather(1, batch["input_ids"][real][:, None]).log().sum()
    assert_close(terms["mlm"].total, expected, rtol=1e-4, atol=1e-4)
