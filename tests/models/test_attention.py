"""Attention implementations and rows without padding: equal states, losses and gradients."""

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers import ElectraForPreTraining

from road_ray.data.batching import encoder_inputs
from road_ray.data.task_and_dataset import Classify, Task
from road_ray.errors import ConfigError
from road_ray.models.architectures import input_names
from road_ray.models.attention import (
    CpuDropout,
    attention,
    keep_mask,
    use_attention,
    use_cpu_kernels,
)
from road_ray.models.encoder import load_encoder
from road_ray.training.gradients import backward
from road_ray.training.worker import Worker, encoders_of
from tests.objectives import every
from tests.published import FAMILIES, load_multitask, publish
from tests.tiny_encoder import padded_batch, small_config

ONE_IMPLEMENTATION = ("deberta-v2", "mpnet")
LENGTHS = (40, 7, 23, 31)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return {family: publish(tmp_path_factory.mktemp(family), family) for family in FAMILIES}


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
    full = padded_batch(*[40] * 4) | {"unpadded": True}  # come without a mask
    for batch in (padded_batch(*LENGTHS), full):
        expected, ours = (computed(published[family], name, batch) for name in ("eager", attention))
        assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def test_no_layer_computes_padding(published):
    encoder = load_encoder(str(published["modernbert"]))
    use_attention(encoder, "unpadded", None)
    shapes = []
    encoder.layers[-1].register_forward_hook(lambda *seen: shapes.append(seen[-1].shape[:2]))
    batch = padded_batch(*LENGTHS)
    states = encoder(**encoder_inputs(batch, input_names(encoder))).last_hidden_state
    assert shapes == [(1, int(batch["attention_mask"].sum()))]
    assert states.shape[:2] == (4, 40)
    assert not states[batch["attention_mask"] == 0].any()


@pytest.mark.parametrize("case", [name for name in every.CASES if name != "attention maps"])
def test_every_objective_has_the_same_loss_and_gradients(case, tmp_path):
    results = []
    for name in ("eager", "unpadded"):
        objective, batch = every.case_of(case, tmp_path, dropout=0.0)
        for encoder in encoders_of(objective):
            use_attention(encoder, name, None)
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
    assert "unpadded" not in (tmp_path / "config.json").read_text()
    assert load_encoder(str(tmp_path)).config._attn_implementation == "sdpa"


def model(dropout=0.0):
    torch.manual_seed(0)
    return ElectraForPreTraining(
        small_config(
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            initializer_range=0.3,  # so that attention is far from even
        )
    ).train()


SHORT = (12, 7, 3)


def outcome(model, batch, dtype=None):
    """Logits of real tokens and the gradients of a sum that weighs them differently."""
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        logits = model(**batch).logits[batch["attention_mask"].bool()]
    (logits * torch.arange(len(logits))).sum().backward()
    return logits, {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("lengths", [SHORT, (12, 12, 12)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_dropout_logits_and_gradients_are_those_of_hugging_face(lengths, dtype):
    plain = model().to(dtype)
    quick = deepcopy(plain)
    use_cpu_kernels(quick)
    near = {"rtol": 1e-4, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    batch = padded_batch(*lengths)
    assert_close(outcome(quick, batch), outcome(plain, batch), **near)


def test_bf16_errs_no_more_than_that_of_hugging_face():
    exact, quick, eager = model(), model(), model()
    use_cpu_kernels(quick)
    eager.set_attn_implementation("eager")
    batch = padded_batch(*SHORT)
    _, truth = outcome(exact, batch)
    ours = outcome(quick, batch, torch.bfloat16)[1]
    theirs = outcome(eager, batch, torch.bfloat16)[1]
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
def test_elements_are_kept_with_the_probability_asked_for_independently(p):
    torch.manual_seed(0)
    ones, two = (keep_mask(torch.Size((1_000_003,)), p, torch.float32) for _ in range(2))
    variance = p * (1 - p)
    assert ones.unique().tolist() == [0, 1]
    assert abs(float(ones.mean()) - (1 - p)) < 4 * variance**0.5 / 1000 + 2**-17
    first, two = (x - (1 - p) for x in (ones, two))
    for shift in (1, 2, 3, 4, 5, 8, 128):
        assert abs(float((first[shift:] * first[:-shift]).mean())) < 4 * variance / 1000, shift
    assert abs(float((first * two).mean())) < 4 * variance / 1000


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
    batch = padded_batch(*SHORT)
    assert torch.equal(quick(**batch).logits, plain(**batch).logits)
