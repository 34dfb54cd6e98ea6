"""What holds for every pre-training objective beside the contract of ``road_ray.testing``; a new
one inherits these tests by its entry.
"""

import copy

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoModel

from road_ray.objectives.pretraining.registry import OBJECTIVES
from road_ray.training.worker import recompute
from tests.objectives import every
from tests.objectives.every import objective_of


@pytest.fixture(params=OBJECTIVES)
def objective(request):
    return objective_of(request.param, dropout=0.0)


def test_layers_that_run_again_give_the_same_gradients_with_dropout_too(objective, wide):
    for module in objective.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.1

    def gradients():
        objective.zero_grad()
        torch.manual_seed(1)
        terms = objective.train()(wide).terms.values()
        sum(term.weight * term.total / term.count for term in terms).backward()
        names = objective.named_parameters()
        return {name: p.grad.clone() for name, p in names if p.grad is not None}

    straight = gradients()
    recompute(objective)
    assert_close(gradients(), straight, rtol=0, atol=0)


def test_metrics_carry_no_gradient_and_a_copy_can_be_made_after_a_pass(objective, wide):
    losses = objective(wide)
    assert losses.metrics
    pairs = [torch.as_tensor(value) for pair in losses.metrics.values() for value in pair]
    assert not any(value.requires_grad for value in pairs)
    copy.deepcopy(objective)  # no tensor of the graph is left in the module


def test_what_lies_in_the_padding_changes_nothing(objective, wide):
    tokens = wide["input_ids"] + 9 * (1 - wide["attention_mask"])
    padded = objective(wide | {"input_ids": tokens}).terms
    for name, term in objective(wide).terms.items():
        assert_close(padded[name].total, term.total)
        assert int(padded[name].count) == int(term.count)


def test_the_encoder_loads_with_plain_transformers(objective, wide, tmp_path):
    objective.export(tmp_path)
    inputs = {k: wide[k] for k in ("input_ids", "attention_mask", "token_type_ids")}
    loaded = AutoModel.from_pretrained(tmp_path).eval()
    objective.eval()
    assert_close(loaded(**inputs).last_hidden_state, objective.encoder(**inputs).last_hidden_state)


@pytest.mark.parametrize("name", every.CASES)
def test_counts_are_known_before_the_forward_pass(name, tmp_path):
    objective, batch = every.case_of(name, tmp_path, layers=1)
    prepared = objective.prepare(batch)
    counts = {name: int(term.count) for name, term in objective(prepared).terms.items()}
    assert {name: int(count) for name, count in objective.counts(prepared).items()} == counts
