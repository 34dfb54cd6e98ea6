"""Attention implementations and rows without padding: equal states, losses and gradients."""

from __future__ import annotations

import json

import pytest
import torch
from torch.testing import assert_close

from road_ray.data.batching import encoder_inputs
from road_ray.data.task_and_dataset import Classify, Task
from road_ray.errors import ConfigError
from road_ray.models.architectures import input_names
from road_ray.models.attention import use_attention
from road_ray.models.encoder import load_encoder
from road_ray.training.gradients import backward
from road_ray.training.model_wrappers import encoders_of
from road_ray.training.worker import Worker
from tests.objectives import every
from tests.published import FAMILIES, load_multitask, publish

ONE_IMPLEMENTATION = ("deberta-v2", "mpnet")
LENGTH = 40


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return {family: publish(tmp_path_factory.mktemp(family), family) for family in FAMILIES}


def rows():
    chance = torch.Generator().manual_seed(0)
    mask = (torch.arange(LENGTH) < torch.tensor([40, 7, 23, 31])[:, None]).long()
    ids = torch.randint(5, 50, mask.shape, generator=chance)
    segments = (torch.arange(LENGTH) >= 5).long() * mask
    return {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": segments}


def computed(directory, attention, batch):
    """States of all layers at real tokens, and the gradients of a weighted sum of the last."""
    encoder = load_encoder(str(directory))  # in eval mode: without dropout
    use_attention(encoder, attention, None)
    output = encoder(**encoder_inputs(batch, input_names(encoder)), output_hidden_states=True)
    real = batch["attention_mask"][..., None]
    states = [x * real for x in (*output.hidden_states, output.last_hidden_state)]
    weights = torch.randn(states[-1].shape, generator=torch.Generator().manual_seed(1))
    (states[-1] * weights).mean().backward()
    named = encoder.named_parameters()
    return states, {name: x.grad for name, x in named if x.grad is not None}


@pytest.mark.parametrize("attention", ["sdpa", "unpadded"])
@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ONE_IMPLEMENTATION])
def test_states_and_gradients_are_those_of_eager_attention(family, attention, published):
    expected, ours = (computed(published[family], name, rows()) for name in ("eager", attention))
    assert_close(ours, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_full_rows_come_without_a_mask(family, published):
    batch = rows() | {"attention_mask": torch.ones(4, LENGTH, dtype=torch.long), "unpadded": True}
    expected, ours = (computed(published[family], name, batch) for name in ("eager", "unpadded"))
    assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def test_no_layer_computes_padding(published):
    encoder = load_encoder(str(published["modernbert"]))
    use_attention(encoder, "unpadded", None)
    shapes = []
    encoder.layers[-1].register_forward_hook(lambda *seen: shapes.append(seen[-1].shape[:2]))
    batch = rows()
    states = encoder(**encoder_inputs(batch, input_names(encoder))).last_hidden_state
    assert shapes == [(1, int(batch["attention_mask"].sum()))]
    assert states.shape[:2] == (4, LENGTH)
    assert not states[batch["attention_mask"] == 0].any()


@pytest.mark.parametrize("case", [name for name in every.CASES if name != "attention maps"])
def test_every_objective_has_the_same_loss_and_gradients(case, tmp_path):
    results = []
    for attention in ("eager", "unpadded"):
        objective, batch = every.case_of(case, tmp_path, dropout=0.0)
        for encoder in encoders_of(objective):
            use_attention(encoder, attention, None)
        passes = [objective.prepare(batch)]
        done = backward(objective, objective, passes, Worker(), seed=1, step=0, autocast=None)
        named = objective.named_parameters()
        results.append((done.loss, {n: p.grad for n, p in named if p.grad is not None}))
    assert_close(*results, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ONE_IMPLEMENTATION)
def test_a_family_with_eager_attention_alone_says_so(family, published):
    encoder = load_encoder(str(published[family]))
    use_attention(encoder, "eager", None)
    with pytest.raises(ConfigError, match=r"encoder.attention = unpadded, of a .*eager attention"):
        use_attention(encoder, "unpadded", None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="flash attention may run here")
def test_flash_attention_is_refused_where_it_cannot_run(published):
    encoder = load_encoder(str(published["modernbert"]))
    with pytest.raises(ConfigError, match=r"(?s)flash_attention_2.*fix: .*pip install flash-attn"):
        use_attention(encoder, "flash_attention_2", torch.bfloat16)


def test_an_exported_model_does_not_record_the_implementation(published, tmp_path):
    model = load_multitask(str(published["bert"]), [Task("t", Classify(("no", "yes")))])
    use_attention(model.encoder, "unpadded", None)
    model.export(tmp_path, "t")
    assert "unpadded" not in json.dumps(json.loads((tmp_path / "config.json").read_text()))
    assert load_encoder(str(tmp_path)).config._attn_implementation == "sdpa"
