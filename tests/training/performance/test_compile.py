"""Recomputed or compiled: the same gradients, in one graph, compiled once for all lengths."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close
from transformers import PretrainedConfig, PreTrainedModel

from road_ray.objectives.base import Objective
from road_ray.training.performance.compile import compile_encoders, encoders_of, recompute
from road_ray.training.performance.mfu import forward_flops
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
    made = {"input_ids": ids, "attention_mask": same, "token_type_ids": 0 * same, "noise": noise}
    return objective.prepare(made)


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
def test_a_compiled_encoder_stays_compiled_when_its_flops_are_counted():
    calls = []

    def backend(graph, inputs):
        return lambda *values: calls.append(len(values)) or graph.forward(*values)

    torch._dynamo.reset()
    objective = electra()
    compile_encoders(objective, backend=backend)
    objective.eval()(batch(objective))
    before = len(calls)
    forward_flops(objective, batch(objective), Worker(), None)
    objective(batch(objective))
    torch._dynamo.reset()
    assert before
    assert len(calls) == 2 * before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "layers"), [("mlm", 1), pytest.param("electra", 2, marks=pytest.mark.long)]
)
def test_compiled_encoders_give_the_same_gradients_under_the_same_names(kind, layers):
    straight, compiled = (small.objective_of(kind, dropout=0.0, layers=layers) for _ in range(2))
    compile_encoders(compiled, backend="aot_eager")
    assert compiled.state_dict().keys() == straight.state_dict().keys()
    assert_close(gradients(compiled), gradients(straight), rtol=1e-5, atol=1e-6)


class OneLayer(PreTrainedModel):
    """An encoder of one matrix; of a larger one every frame is tried, and fails, by itself."""

    config_class = PretrainedConfig

    def __init__(self):
        super().__init__(PretrainedConfig())
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, hidden):
        return torch.tanh(self.linear(hidden))


def gradients_of_one_layer(encoder):
    encoder(torch.arange(12.0).view(3, 4)).sum().backward()
    return {name: x.grad.clone() for name, x in encoder.named_parameters()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "learnt"),
    [
        (OneLayer, gradients_of_one_layer),
        pytest.param(lambda: electra(0.0), gradients, marks=pytest.mark.long),
    ],
)
def test_what_cannot_be_compiled_runs_as_it_is(made, learnt):
    calls = []

    def broken(graph, inputs):
        calls.append(graph)
        raise RuntimeError("no compiler here")

    straight, fallen = made(), made()
    compile_encoders(fallen, backend=broken)
    assert_close(learnt(fallen), learnt(straight), rtol=1e-5, atol=1e-6)
    assert calls, "nothing was compiled"


_TRACED = [name for name in every.CASES if name != "features head"]  # an LSTM of packed rows
_SHORT = ("electra", "span each teacher")
_LENGTHS = (12, 16, 20, 24)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(item, marks=[] if item in _SHORT else pytest.mark.long) for item in _TRACED],
)
def test_an_objective_is_one_graph_for_batches_of_all_lengths(name, tmp_path):
    """``fullgraph`` makes a break of the graph an error; the backend gets one graph in all."""
    objective, given = every.case_of(name, tmp_path, dropout=0.0, layers=1, length=_LENGTHS[0])
    counter = CompileCounter()
    with torch.no_grad():
        objective(objective.prepare(given))  # transformers puts its hooks in place
    compiled = torch.compile(objective, fullgraph=True, dynamic=True, backend=counter)
    for length in _LENGTHS:
        batch = objective.prepare(every.batch_of(name, objective, length=length, rows=6))
        torch.manual_seed(7)  # some heads have dropout of their own
        with torch.no_grad():
            expected = objective(batch).terms
        torch.manual_seed(7)
        terms = compiled(batch).terms
        sum(term.total for term in terms.values()).backward()
        for key, term in expected.items():
            assert_close(terms[key].total.detach(), term.total, rtol=1e-5, atol=1e-5)
    assert counter.frame_count == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["span head", *(pytest.param(n, marks=pytest.mark.long) for n in ("electra", "choices head"))],
)
def test_encoders_as_a_training_compiles_them_have_one_graph_each(name, tmp_path):
    """Errors are suppressed there, so a break would only cost time: it is counted here."""
    objective, counter = every.case_of(name, tmp_path, dropout=0.0, layers=1)[0], CompileCounter()
    encoders = list(encoders_of(objective))
    compile_encoders(objective, backend=counter)
    torch._dynamo.utils.counters.clear()
    for length in _LENGTHS:
        batch = objective.prepare(every.batch_of(name, objective, length=length, rows=6))
        sum(term.total for term in objective(batch).terms.values()).backward()
    assert not torch._dynamo.utils.counters["graph_break"]
    assert counter.frame_count == len(encoders)
