"""Recomputed or compiled: the same gradients, in one graph, compiled once for all lengths."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close

from road_ray.data.batching import Batching, BatchStream
from road_ray.objectives.base import Objective
from road_ray.training.loop import train
from road_ray.training.performance.compile import compile_encoders, recompute
from road_ray.training.worker import Worker
from tests.objectives import every
from tests.objectives import tiny as small
from tests.training.conftest import electra


def batch(objective: Objective):
    chance = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 60, (4, 16), generator=chance)
    ids[:, 0], ids[:, -1] = 2, 3
    noise = torch.rand(objective.noise_channels, 4, 16, generator=chance)
    same = torch.ones_like(ids)
    return {"input_ids": ids, "attention_mask": same, "token_type_ids": 0 * same, "noise": noise}


def gradients(objective: Objective):
    objective.train()
    torch.manual_seed(1)
    terms = objective(batch(objective)).terms.values()
    sum(term.weight * term.total / term.count for term in terms).backward()
    return {name: x.grad.clone() for name, x in objective.named_parameters() if x.grad is not None}


def test_recomputed_layers_give_the_same_gradients_with_dropout_too():
    straight, saving = electra(), electra()
    recompute(saving)
    assert any(getattr(module, "gradient_checkpointing", False) for module in saving.modules())
    assert_close(gradients(saving), gradients(straight), rtol=0, atol=0)


def test_recomputed_layers_keep_less_for_the_backward_pass():
    def saved_elements(objective):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x: sizes.append(x.numel()) or x, lambda x: x
        ):
            torch.manual_seed(1)
            objective.train()(batch(objective))
        return sum(sizes)

    straight, saving = electra(), electra()
    recompute(saving)
    assert saved_elements(saving) < 0.8 * saved_elements(straight)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mlm", pytest.param("electra", marks=pytest.mark.long)])
def test_compiled_encoders_give_the_same_gradients_under_the_same_names(kind):
    straight, compiled = (small.objective_of(kind, dropout=0.0) for _ in range(2))
    compile_encoders(compiled, backend="aot_eager")
    assert compiled.state_dict().keys() == straight.state_dict().keys()
    assert_close(gradients(compiled), gradients(straight), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_what_cannot_be_compiled_runs_as_it_is():
    calls = []

    def broken(graph, inputs):
        calls.append(graph)
        raise RuntimeError("no compiler here")

    straight, fallen = electra(0.0), electra(0.0)
    compile_encoders(fallen, backend=broken)
    assert_close(gradients(fallen), gradients(straight), rtol=1e-5, atol=1e-6)
    assert calls, "nothing was compiled"


def test_a_training_with_recomputed_layers_ends_with_the_same_weights(tmp_path, tiny):
    def trained(name, **how):
        objective = tiny.supervised()
        passes = tiny.stream(tiny.rows())
        train(
            objective,
            lambda start: ([item] for item in passes.since(start)),
            tiny.training(tmp_path / name, steps=3, precision="fp32", **how),
            Worker.alone(),
        )
        return objective.state_dict()

    saving = trained("saving", activation_checkpointing=True)
    assert_close(saving, trained("straight"), rtol=0, atol=0)


# The others differ from these in what is around the graph; an LSTM of packed rows is not traced.
_TRACED = (
    *small.KINDS,
    *(name for name in every.SUPERVISED if name != "features head"),
    *("tags distilled", "span each teacher", "hidden states", "attention maps"),
)


_SHORT = ("electra", "span each teacher")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(item, marks=[] if item in _SHORT else pytest.mark.long) for item in _TRACED],
)
def test_an_objective_is_one_graph(name, tmp_path):
    """``fullgraph`` makes a break of the graph an error; the backend gets one graph."""
    objective, given = every.case_of(name, tmp_path, dropout=0.0)
    prepared, counter = objective.prepare(given), CompileCounter()
    torch.manual_seed(7)  # some heads have dropout of their own
    with torch.no_grad():
        expected = objective(prepared).terms  # and transformers puts its hooks in place
    torch.manual_seed(7)
    terms = torch.compile(objective, fullgraph=True, dynamic=True, backend=counter)(prepared).terms
    sum(term.total for term in terms.values()).backward()
    assert counter.frame_count == 1
    for key, term in expected.items():
        assert_close(terms[key].total.detach(), term.total, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "mlm",
        *(pytest.param(kind, marks=pytest.mark.long) for kind in ("electra", "all_tokens_mlm")),
    ],
)
def test_batches_of_all_lengths_are_compiled_at_most_once_each(kind):
    objective, counter = small.objective_of(kind, dropout=0.0), CompileCounter()
    stream = BatchStream(small.rows(60), Batching(7, seed=5), pad_id=0, noise_channels=3)
    compiled = torch.compile(objective, fullgraph=True, dynamic=True, backend=counter)
    widths = set()
    for number in range(stream.batches_per_epoch):
        prepared = objective.prepare(stream[number])
        widths.add((prepared["input_ids"].shape[1], prepared["unpadded"]))
        sum(term.total for term in compiled(prepared).terms.values()).backward()
    assert len(widths) >= 3
    assert counter.frame_count <= len({full for _, full in widths}) < len(widths)


@pytest.fixture(autouse=True)
def _afresh():
    yield
    torch._dynamo.reset()
