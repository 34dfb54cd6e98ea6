"""The quick dropout and attention against those of PyTorch and Hugging Face."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers import ElectraForPreTraining

from road_ray.models.cpu_kernels import CpuDropout, attention, keep_mask, use_cpu_kernels
from tests.tiny_encoder import small_config


def model(dropout=0.0):
    torch.manual_seed(0)
    return ElectraForPreTraining(
        small_config(
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            initializer_range=0.3,  # so that attention is far from even
        )
    ).train()


def inputs(*, padded=True):
    lengths = torch.tensor([12, 7, 3]) if padded else torch.full((3,), 12)
    tokens = torch.randint(5, 50, (3, 12), generator=torch.Generator().manual_seed(1))
    return {"input_ids": tokens, "attention_mask": (torch.arange(12) < lengths[:, None]).long()}


def outcome(model, batch, dtype=None):
    """Logits of real tokens and the gradients of a sum that weighs them differently."""
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        logits = model(**batch).logits[batch["attention_mask"].bool()]
    (logits * torch.arange(len(logits))).sum().backward()
    return logits, {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_dropout_logits_and_gradients_are_those_of_hugging_face(padded, dtype):
    plain = model().to(dtype)
    quick = deepcopy(plain)
    use_cpu_kernels(quick)
    near = {"rtol": 1e-4, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    batch = inputs(padded=padded)
    assert_close(outcome(quick, batch), outcome(plain, batch), **near)


def test_bf16_errs_no_more_than_that_of_hugging_face():
    exact, quick, eager = model(), model(), model()
    use_cpu_kernels(quick)
    eager.set_attn_implementation("eager")
    _, truth = outcome(exact, inputs())
    ours = outcome(quick, inputs(), torch.bfloat16)[1]
    theirs = outcome(eager, inputs(), torch.bfloat16)[1]
    for name, gradient in truth.items():
        allowed = 1.5 * (theirs[name] - gradient).norm() + 1e-3 * gradient.norm() + 1e-6
        assert (ours[name] - gradient).norm() <= allowed, name


def test_with_dropout_the_gradient_is_that_of_the_function_computed():
    def seeded(query, key, value):
        torch.manual_seed(3)
        module = nn.Identity().train()
        mask = (torch.arange(5) < torch.tensor([5, 3])[:, None])[:, None, None].expand(2, 1, 5, 5)
        return attention(module, query, key, value, mask, dropout=0.4)[0]

    parts = [torch.randn(2, 3, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    assert torch.autograd.gradcheck(seeded, parts)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_elements_are_kept_with_the_probability_asked_for(p):
    torch.manual_seed(0)
    ones = keep_mask(torch.Size((1000, 1001)), p, torch.float32)
    count = ones.numel()
    noise = (p * (1 - p) / count) ** 0.5
    assert ones.unique().tolist() == [0, 1]
    assert abs(float(ones.mean()) - (1 - p)) < 4 * noise + 2**-17


def test_elements_and_draws_are_independent():
    torch.manual_seed(0)
    first, two = (keep_mask(torch.Size((1_000_000,)), 0.1, torch.float32) - 0.9 for _ in range(2))
    for shift in (1, 2, 3, 4, 5, 8, 128):
        assert abs(float((first[shift:] * first[:-shift]).mean())) < 4 * 0.09 / 1000, shift
    assert abs(float((first * two).mean())) < 4 * 0.09 / 1000


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_kept_is_scaled_as_pytorch_does(dtype):
    value = torch.tensor(3.0, dtype=dtype)
    dropped = CpuDropout(0.1)(value.expand(1000))
    assert_close(dropped.max(), (value.double() / 0.9).to(dtype), rtol=1e-4, atol=0)
    assert dropped.min() == 0


def test_evaluation_is_that_of_hugging_face_to_the_bit():
    plain = model(0.1).eval()
    quick = deepcopy(plain)
    use_cpu_kernels(quick)
    assert torch.equal(quick(**inputs()).logits, plain(**inputs()).logits)


def test_names_weights_and_saved_configuration_stay(tmp_path):
    plain = model(0.1)
    quick = deepcopy(plain)
    use_cpu_kernels(quick)
    assert list(quick.state_dict()) == list(plain.state_dict())
    saved = {"plain": plain, "quick": quick}
    for name, part in saved.items():
        part.save_pretrained(tmp_path / name)
    saved = [
        json.loads((tmp_path / name / "config.json").read_text()) for name in ("plain", "quick")
    ]
    assert saved[0] == saved[1]
    loaded = ElectraForPreTraining.from_pretrained(tmp_path / "quick")
    assert loaded.config._attn_implementation == "sdpa"
