"""Recomputed or compiled: the same gradients, in one graph, compiled once for all lengths."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close
from transformers import PretrainedConfig, PreTrainedModel

from road_ray.data.batching import Batching, BatchStream
from road_ray.objectives.base import Objective
from road_ray.training.loop import train
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "mlm",
        *(pytest.param(kind, marks=pytest.mark.long) for kind in ("electra", "all_tokens_mlm")),
    ],
)
def test_batches_of_all_lengths_are_compiled_at_most_once_each(kind):
    objective, counter = small.objective_of(kind, dropout=0.0, layers=1), CompileCounter()
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
