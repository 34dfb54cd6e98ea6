"""The gate that copies: a mixture of two distributions, in logarithms."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close
from transformers import ElectraForMaskedLM

from road_ray.objectives.pretraining.mlm import AllTokensMLM, copy_losses
from tests.objectives.conftest import MASK, SPECIAL, config_of


def test_losses_by_hand():
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25]])).repeat(2, 1)
    gate = torch.full((2,), math.log(3))  # D = 3/4
    losses = copy_losses(logits, gate, torch.tensor([1, 1]), torch.tensor([True, False]))
    # 3/4 + 1/4 * 1/4 where the input is the original, 1/4 * 1/4 where it is not
    assert losses.tolist() == pytest.approx([-math.log(0.8125), -math.log(0.0625)], rel=1e-5)


def test_probabilities_of_all_originals_sum_to_1():
    torch.manual_seed(0)
    logits, gate = torch.randn(11, 11), torch.randn(1).expand(11)
    gold = torch.arange(11)
    copied = gold == 4  # the input is token 4
    losses = copy_losses(logits[:1].expand(11, 11), gate, gold, copied)
    assert float(torch.exp(-losses).sum()) == pytest.approx(1)


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
    objective = AllTokensMLM(generator, model, special_ids=SPECIAL, mask_id=MASK)
    terms = objective(batch).terms
    assert int(terms["mlm"].count) == 57
    made, real = objective.corrupted(objective.prepare(batch)), batch["attention_mask"].bool()
    hidden = objective.encoder(
        input_ids=made.tokens,
        attention_mask=batch["attention_mask"],
        token_type_ids=batch["token_type_ids"],
    ).last_hidden_state
    state = model.generator_predictions(hidden[real])
    chances = torch.softmax(model.generator_lm_head(state), -1)
    share = torch.sigmoid(objective.copy(hidden[real]))
    mixed = share * torch.nn.functional.one_hot(made.tokens[real], 97) + (1 - share) * chances
    expected = -mixed.gather(1, batch["input_ids"][real][:, None]).log().sum()
    assert_close(terms["mlm"].total, expected, rtol=1e-4, atol=1e-4)
