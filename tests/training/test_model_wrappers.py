"""Compiled, recomputed and sharded models compute what plain ones do."""

import json
from copy import deepcopy
from functools import partial

import pytest
import torch
from safetensors.torch import load_file
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close
from transformers import CONFIG_MAPPING, AutoModel

from road_ray.data.mixing import draw_datasets, mixed
from road_ray.data.task_and_dataset import Task
from road_ray.models.architectures import layer_list
from road_ray.models.multitask import MultitaskModel
from road_ray.models.precision import compile_for_all_shapes
from road_ray.objectives.base import Objective
from road_ray.objectives.pretraining.electra import Electra
from road_ray.objectives.supervised import Supervised
from road_ray.training.config import OptimizerConfig
from road_ray.training.loop import train
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.training.optimizer import build_optimizer
from road_ray.training.profile import forward_flops
from road_ray.training.worker import (
    Worker,
    compile_encoders,
    encoders_of,
    recompute,
    shard,
)
from tests.objectives import every
from tests.pair import both
from tests.training import conftest as tiny


def batch(objective: Objective):
    return objective.prepare(every.batch_of("electra", objective, length=16, rows=4))


def test_recomputed_layers_keep_less_for_the_backward_pass():
    def saved_elements(objective):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x: sizes.append(x.numel()) or x, lambda x: x
        ):
            torch.manual_seed(1)
            objective.train()(batch(objective))
        return sum(sizes)

    straight, saving = tiny.electra(), tiny.electra()
    recompute(saving)
    assert saved_elements(saving) < 0.8 * saved_elements(straight)


@pytest.mark.parametrize("family", ["albert", "mpnet"])
def test_families_that_transformers_cannot_recompute_are_recomputed(family):
    sizes = {"vocab_size": 60, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
    encoder = AutoModel.from_config(CONFIG_MAPPING[family](**sizes, num_hidden_layers=2))
    objective = Supervised(MultitaskModel(encoder, [tiny.NLI]))
    straight = sharded_gradients(objective, ALONE)
    recompute(objective)
    runs = []
    layer_list(encoder)[0].attention.register_forward_hook(lambda *_: runs.append(1))
    assert_close(sharded_gradients(objective, ALONE), straight, rtol=0, atol=0)
    assert len(runs) == (4 if family == "albert" else 2)  # twice for each layer that uses it


@pytest.mark.slow
def test_a_compiled_encoder_stays_compiled_when_its_flops_are_counted():
    calls = []

    def backend(graph, inputs):
        return lambda *values: calls.append(len(values)) or graph.forward(*values)

    torch._dynamo.reset()
    objective = every.objective_of("mlm", dropout=0.1, layers=1)
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
    straight, compiled = (every.objective_of(kind, dropout=0.0, layers=layers) for _ in range(2))
    compile_encoders(compiled, backend="aot_eager")
    assert compiled.state_dict().keys() == straight.state_dict().keys()
    passes = [every.batch_of("electra", straight, length=16, rows=4)]
    ours, theirs = (tiny.gradients(one.train(), passes)[0] for one in (compiled, straight))
    assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


class OneLayer(torch.nn.Linear):
    def forward(self, input):
        return torch.tanh(torch.nn.functional.linear(input, self.weight, self.bias))


@pytest.mark.slow
def test_what_cannot_be_compiled_runs_as_it_is():
    calls, straight = [], OneLayer(4, 4)
    fallen, hidden = deepcopy(straight), torch.arange(12.0).view(3, 4)

    def broken(graph, inputs):
        calls.append(graph)
        raise RuntimeError("no compiler here")

    compile_for_all_shapes(fallen, broken)
    for layer in (fallen, straight):
        layer(hidden).square().sum().backward()
    assert_close(fallen.weight.grad, straight.weight.grad)
    assert calls, "nothing was compiled"


_LENGTHS = (12, 16, 20, 24)


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


ALONE = Worker()
STEPS, JOURNAL = 4, "metrics.jsonl"
NOISE = {"rtol": 1e-4, "atol": 1e-5}  # as for two workers that hold everything
CASES = {  # the norms are about 10: gradients are cut
    "recomputed": {"rates": {"max_grad_norm": 0.5}, "activation_checkpointing": True},
    "lamb": {"rates": {"name": "lamb", "peak_lr": 0.1}},
    "other heads": {"rates": {"layer_decay": 0.8, "max_grad_norm": 0.5}},
    "one data set": {"rates": {"max_grad_norm": 0.5}},
}


def steps_of(objective, worker):
    """Two passes a step of one data set, or of tasks so that heads are untouched in some steps;
    counts differ between the workers.
    """
    place = {"rank": worker.rank, "size": worker.size, "batch_size": 7}
    if not objective.sparse:
        stream = tiny.stream(tiny.rows(unlabelled=0.4), **place)
    else:
        tasks = [tiny.NLI, tiny.SIMILARITY, tiny.MRC][: len(objective.model.tasks)]
        streams = {t.name: tiny.stream(tiny.rows(t, unlabelled=0.4), **place).since for t in tasks}

    def steps(start):
        if not objective.sparse:  # a second head has labels of its own, as QuAC's have
            drawn = stream.since(2 * start)
            drawn = (b | {"labels/second": b["labels"].clamp(max=1)} for b in drawn)
            return zip(drawn, drawn, strict=False)
        draw = partial(draw_datasets, list(streams), 2)
        return mixed(streams, lambda step: draw(seed=15, step=step), start=start)

    return steps


def run(directory, worker=ALONE, objective=None, *, stop=None, **options):
    """The objective after four steps, or killed in one of them."""
    objective = objective or tiny.electra(dropout=0.0)
    chosen = {"steps": STEPS, "precision": "fp32", "worker": worker} | options
    steps = tiny.halted(steps_of(objective, worker), stop, OSError("killed"))
    train(objective, steps, tiny.training(directory, **chosen))
    return objective


def rows_without_times(directory):
    """The journal without what a clock says; an area is no sum over workers."""
    left_out = ("time/", "train/detection_auc")
    rows = read_rows(directory / JOURNAL)
    return [{n: v for n, v in row.items() if not n.startswith(left_out)} for row in rows]


def last_checkpoint(directory):
    """The last checkpoint of a run."""
    return directory / "checkpoints" / f"step-{STEPS:08d}"


def begun(name):
    if name == "one data set":
        tasks = (tiny.NLI, Task("second", tiny.NLI.kind))
        return Supervised(tiny.supervised(0.0, tasks).model, one_dataset=True)
    return tiny.supervised(0.0) if name == "other heads" else tiny.electra(0.0)


def in_parts_and_whole(worker, directory):
    """What each process does: every case in parts, and held by both."""
    for name, options in CASES.items():
        for how, sharded in (("parts", True), ("replicas", False)):
            place = directory / how / name
            run(place, worker, begun(name), fsdp=sharded, **options)


@pytest.mark.slow
def test_two_sharded_workers_learn_as_two_replicas_and_as_one_process(tmp_path):
    for name, options in CASES.items():
        run(tmp_path / "alone" / name, ALONE, begun(name), **options)
    both(in_parts_and_whole, tmp_path, tmp_path, timeout_seconds=200)
    for name in CASES:
        parts, replicas, alone = (tmp_path / how / name for how in ("parts", "replicas", "alone"))
        for file in ("model.safetensors", "optimizer.safetensors"):
            ours, one, other = (
                load_file(last_checkpoint(d) / file) for d in (parts, alone, replicas)
            )
            text = f"{name}, {file}: "
            assert_close(ours, one, **NOISE, msg=text.__add__)
            assert_close(ours, other, rtol=1e-5, atol=1e-6, msg=text.__add__)
        journals = map(rows_without_times, (parts, alone, replicas))
        for row, one, other in zip(*journals, strict=True):
            assert row == pytest.approx(one, rel=1e-3, abs=1e-5), name
            assert row == pytest.approx(other, rel=1e-4, abs=1e-6), name
            assert name == "lamb" or one["train/grad_norm"] > 0.5
        groups = [state_of(last_checkpoint(d))["optimizer"] for d in (parts, alone)]
        assert groups[0] == groups[1]


def broken_and_resumed(worker, directory):
    """What each process does: a run at a stretch, broken ones, and what goes on from those."""
    for _ in ("trained", "finished already"):
        made = run(directory / "straight", worker, tiny.electra(0.1), fsdp=True)
        if worker.is_main:  # the recipe's own objective has the last weights
            last = load_file(last_checkpoint(directory / "straight") / "model.safetensors")
            ours = made.state_dict()
            assert all(torch.equal(ours[name], tensor) for name, tensor in last.items())
    for place, dropout in (("broken", 0.1), ("begun in parts", 0.0)):
        how = {"stop": 3, "save_every_steps": 2, "fsdp": True}
        with pytest.raises(OSError, match="killed"):
            run(directory / place, worker, tiny.electra(dropout), **how)
    torch.manual_seed(12345)
    run(directory / "broken", worker, tiny.electra(0.1), fsdp=True)
    run(directory / "begun alone", worker, fsdp=True)


@pytest.mark.slow
def test_a_sharded_run_resumes_bit_for_bit_and_on_other_numbers_of_workers(tmp_path):
    expected = run(tmp_path / "alone").state_dict()
    with pytest.raises(OSError, match="killed"):
        run(tmp_path / "begun alone", stop=3, save_every_steps=2)
    both(broken_and_resumed, tmp_path, tmp_path, timeout_seconds=200)
    straight, broken = (last_checkpoint(tmp_path / how) for how in ("straight", "broken"))
    for file in ("model.safetensors", "optimizer.safetensors"):
        assert (straight / file).read_bytes() == (broken / file).read_bytes(), file
    assert state_of(straight) == state_of(broken)
    assert rows_without_times(tmp_path / "broken") == rows_without_times(tmp_path / "straight")
    last = load_file(last_checkpoint(tmp_path / "begun alone") / "model.safetensors")
    assert_close(last, {name: expected[name] for name in last}, **NOISE)
    resumed = run(tmp_path / "begun in parts")
    assert_close(resumed.state_dict(), expected, **NOISE)


def state_of(checkpoint):
    """The state of a checkpoint without the seconds that its steps took."""
    state = json.loads((checkpoint / "state.json").read_text())
    row = {name: value for name, value in state["row"].items() if not name.startswith("time/")}
    return state | {"row": row}


def sharded_gradients(objective, worker, autocast=None):
    place = {"rank": worker.rank, "size": worker.size, "batch_size": 7}
    passes = [tiny.stream(tiny.rows(tiny.NLI, count=21), **place)[0] | {"fraction": torch.ones(1)}]
    return tiny.gradients(objective.train(), passes, worker, autocast=autocast)[0]


def held(worker):
    """What each process does: it counts what it holds, after one update."""
    alone = sharded_gradients(tiny.supervised(0.0), ALONE)
    for run_as in (lambda _: None, recompute):
        objective = shard(tiny.supervised(0.0), worker)
        run_as(objective)
        ours = sharded_gradients(objective, worker)
        assert_close(ours, alone, **NOISE)  # two heads have none
    half = shard(tiny.supervised(0.0), worker, torch.bfloat16)
    dtypes = set()
    layer_list(half.encoder)[0].attention.register_forward_pre_hook(
        lambda module, _: dtypes.update(p.dtype for p in module.parameters())
    )
    inputs = set()
    half.register_forward_pre_hook(lambda _, given: inputs.add(given[0]["fraction"].dtype))
    ours = sharded_gradients(half, worker, torch.bfloat16)
    assert inputs == {torch.float32}  # noise, numbers and teachers' logits stay as they are
    assert dtypes == {torch.bfloat16}  # gathered in half the bytes; exchanged and kept in fp32
    assert_close(ours, alone, rtol=0.1, atol=0.02)
    optimizer = build_optimizer(objective, OptimizerConfig())
    optimizer.step()
    for parameter in objective.parameters():
        mine = parameter.to_local()
        assert abs(2 * mine.numel() - parameter.numel()) <= parameter[:1].numel()
        state = optimizer.state.get(parameter, {})
        for tensor in (parameter.grad, state.get("exp_avg"), state.get("exp_avg_sq")):
            assert tensor is None or tensor.to_local().shape == mine.shape


@pytest.mark.slow
def test_each_worker_holds_half_of_parameters_gradients_and_moments(tmp_path):
    both(held, tmp_path, timeout_seconds=100)


def test_alone_a_sharded_training_is_a_plain_one(tmp_path):
    ours = run(tmp_path / "sharded", fsdp=True)
    assert type(ours) is Electra
    assert tiny.same(ours, run(tmp_path / "plain"))
