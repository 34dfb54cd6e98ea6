"""What holds for every pre-training objective beside the contract of ``road_ray.testing``; a new
one inherits these tests by its entry.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoModel, ElectraForMaskedLM, ElectraForPreTraining

from road_ray.objectives.pretraining.registry import (
    OBJECTIVES,
    models_of,
    objective_class,
    options_of,
)
from road_ray.training.model_wrappers import recompute
from tests.objectives.conftest import MASK, SPECIAL, config_of

EXTRA = {"teams": {"shared_layers": 1, "candidates": 3}, "mc_bert": {"candidates": 4}}


@pytest.fixture(params=OBJECTIVES)
def objective(request):
    torch.manual_seed(0)
    name = request.param
    width = 32 if name == "teams" else 16
    makers = {
        "generator": lambda: ElectraForMaskedLM(config_of(width)),
        "model": lambda: ElectraForMaskedLM(config_of(32)),
        "discriminator": lambda: ElectraForPreTraining(config_of(32)),
    }
    kind = objective_class(name)
    models = [makers[model]() for model in models_of(kind)]
    return kind(*models, special_ids=SPECIAL, mask_id=MASK, **EXTRA.get(name, {}))


@pytest.fixture
def wide_batch(batch, objective):
    chance = torch.Generator().manual_seed(4)
    noise = torch.rand(objective.noise_channels, 5, 24, generator=chance)
    return batch | {"noise": noise}


def test_every_parameter_gets_a_finite_gradient(objective, wide_batch):
    terms = objective(wide_batch).terms
    sum(term.weight * term.total / term.count for term in terms.values()).backward()
    without = [n for n, p in objective.named_parameters() if p.grad is None]
    # Heads of the language model that the choice among candidates does not use.
    assert all("lm_head.bias" in name for name in without), without
    assert all(p.grad.isfinite().all() for p in objective.parameters() if p.grad is not None)


def test_layers_that_run_again_give_the_same_gradients(objective, wide_batch):
    def gradients():
        objective.zero_grad()
        terms = objective.train()(wide_batch).terms.values()
        sum(term.weight * term.total / term.count for term in terms).backward()
        names = objective.named_parameters()
        return {name: p.grad.clone() for name, p in names if p.grad is not None}

    straight = gradients()
    recompute(objective)
    assert_close(gradients(), straight)


def test_metrics_carry_no_gradient_and_a_copy_can_be_made_after_a_pass(objective, wide_batch):
    losses = objective(wide_batch)
    assert losses.metrics
    pairs = [torch.as_tensor(value) for pair in losses.metrics.values() for value in pair]
    assert not any(value.requires_grad for value in pairs)
    copy.deepcopy(objective)  # no tensor of the graph is left in the module


def test_what_lies_in_the_padding_changes_nothing(objective, wide_batch):
    tokens = wide_batch["input_ids"] + 9 * (1 - wide_batch["attention_mask"])
    padded = objective(wide_batch | {"input_ids": tokens}).terms
    for name, term in objective(wide_batch).terms.items():
        assert_close(padded[name].total, term.total)
        assert int(padded[name].count) == int(term.count)


def test_the_encoder_loads_with_plain_transformers(objective, wide_batch, tmp_path):
    objective.export(tmp_path)
    inputs = {k: wide_batch[k] for k in ("input_ids", "attention_mask", "token_type_ids")}
    loaded = AutoModel.from_pretrained(tmp_path).eval()
    objective.eval()
    assert_close(loaded(**inputs).last_hidden_state, objective.encoder(**inputs).last_hidden_state)


def test_options_are_those_of_the_signatures():
    options = options_of(objective_class("teams"))
    assert options["discriminator_weight"] == 5.0
    assert options["choose_fraction"] == 0.15
    assert options_of(objective_class("mc_bert"))["mask_fraction"] == 1.0
    assert "temperature" not in options_of(objective_class("mlm"))
    for name in ("electra", "teams", "mc_bert", "adversarial"):
        assert {"temperature", "disallow_correct"} <= options_of(objective_class(name)).keys()
    assert models_of(objective_class("mlm")) == ("model",)
    assert models_of(objective_class("adversarial")) == ("generator", "discriminator")
