"""Gradient of a step over passes, and its guard."""

import json
import time

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from road_ray.data.batching import to_device
from road_ray.errors import DivergedError, InterruptedRunError
from road_ray.training.gradients import LossGuard
from road_ray.training.loop import StepMetrics, train
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.benchmarks.host import META, meta_step, optimizer_of
from tests.objectives import every
from tests.training import conftest as tiny

gradients = tiny.gradients


def test_the_gradient_is_that_of_the_weighted_means_averaged_over_passes():
    objective = tiny.electra(dropout=0.0)
    stream = tiny.stream(tiny.rows())
    passes = [stream[0], stream[1], stream[2]]
    ours, result = gradients(objective, passes)
    objective.zero_grad()
    losses = []
    for batch in passes:
        terms = objective(objective.prepare(batch)).terms
        losses.append(sum(t.weight * t.total / t.count for t in terms.values()))
    (sum(losses) / 3).backward()
    assert_close(result.loss, sum(losses).detach() / 3)
    theirs = {name: p.grad for name, p in objective.named_parameters()}
    assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["electra", "teams", "classes head", "span head", "tags head", "tags distilled"]
)
def test_pieces_of_one_batch_have_its_gradient(name, tmp_path):
    """Its rows are of 3 to 24 tokens, its pieces of 1, 1, 5 and 1 rows, one unlabelled."""
    objective, whole = every.case_of(name, tmp_path, length=24, rows=8, dropout=0.0)
    passes = [piece(whole, start, end) for start, end in ((0, 1), (1, 2), (2, 7), (7, 8))]
    ours, result = gradients(objective, passes, one_batch=True)
    theirs, expected = gradients(objective, [whole])
    assert_close(result.loss, expected.loss)
    assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    mean, _ = gradients(objective, passes)
    assert any((mean[name] - theirs[name]).abs().max() > 1e-4 for name in theirs)


def piece(batch, start, end):
    """Rows ``start`` to ``end``; the noise ``[K, B, L]`` has rows in its second dimension."""
    tensors = {name: value for name, value in batch.items() if torch.is_tensor(value)}
    noise = {name: value[:, start:end] for name, value in tensors.items() if name == "noise"}
    return batch | {name: value[start:end] for name, value in tensors.items()} | noise


def test_a_pass_without_anything_to_count_adds_nothing():
    objective = tiny.supervised(dropout=0.0)
    known = tiny.stream(tiny.rows())[0]
    unknown = tiny.stream(tiny.rows(unlabelled=1.0))[0]
    alone, _ = gradients(objective, [known])
    beside, result = gradients(objective, [known, unknown])
    assert result.loss.isfinite()
    name = next(n for n in alone if "heads.nli" in n and n.endswith("out_proj.weight"))
    assert_close(beside[name], alone[name] / 2)


def test_dropout_is_a_function_of_seed_step_and_pass():
    objective = tiny.electra(dropout=0.3).train()
    batch = tiny.stream(tiny.rows())[0]
    first, _ = gradients(objective, [batch, batch], step=3)
    torch.rand(5)
    again, _ = gradients(objective, [batch, batch], step=3)
    other, _ = gradients(objective, [batch, batch], step=4)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_a_row_counts_the_steps_before_a_resume(tmp_path):
    objective = tiny.supervised(dropout=0.0)
    batches = [tiny.stream(tiny.rows(unlabelled=0.5))[n] | {"stats": {"x": 1}} for n in (0, 1)]
    results = [gradients(objective, [batch])[1] for batch in batches]

    def row(stopped):
        report, began = StepMetrics(objective, tiny.training(tmp_path), None, {}), 1.0
        for step, (batch, result) in enumerate(zip(batches, results, strict=True), start=1):
            if step == 2 and stopped:
                state = json.loads(json.dumps(report.memory))
                report = StepMetrics(objective, tiny.training(tmp_path), None, state)
            report.add(step, result, [batch], 0.5, time.perf_counter() - began)
        report.write(2, {}, batches)
        assert report.memory["since_row"] == ({}, {})
        return {n: x for n, x in report.row.items() if not n.startswith("time/")}

    assert row(stopped=True) == pytest.approx(row(stopped=False))
    assert row(stopped=True)["x"] == 2


def test_a_row_has_means_over_steps_by_their_counts(tmp_path):
    objective = tiny.supervised(dropout=0.0)
    passes = [tiny.stream(tiny.rows(unlabelled=0.5))[n] | {"stats": {"x": n + 1}} for n in (0, 1)]
    report, results = StepMetrics(objective, tiny.training(tmp_path), None, {}), []
    for step, batch in enumerate(passes, start=1):
        results.append(gradients(objective, [batch])[1])
        report.add(step, results[-1], [batch], 0.5, time.perf_counter() - 2.0)
    report.write(2, {}, passes)
    sums = [result.sums["train/d_nli"] for result in results]
    expected = sum(total for total, _ in sums) / sum(count for _, count in sums)
    assert report.row["train/d_nli"] == pytest.approx(float(expected))
    assert (report.row["x"], report.row["time/data_seconds"]) == (3, 0.5)
    assert report.row["time/step_seconds"] == pytest.approx(2.0, abs=0.1)
    examples = sum(len(batch["input_ids"]) for batch in passes)
    tokens = sum(int(batch["attention_mask"].sum()) for batch in passes)
    assert report.row["time/examples_per_second"] == pytest.approx(examples / 4, rel=0.05)
    assert report.row["time/tokens_per_second"] == pytest.approx(tokens / 4, rel=0.05)
    report.add(3, results[0], [passes[0]], 0.0, time.perf_counter() - 1.0)
    report.write(3, {}, passes)
    assert report.row["train/d_nli"] == pytest.approx(float(sums[0][0] / sums[0][1]))


WAITS = "attention maps"
"""Only ``eager`` attention returns maps, and transformers looks whether its mask masks anything."""


class _Copies(TorchDispatchMode):
    """Lists the operators that copy between the host and the device."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tensors = [x for x in (*args, *(kwargs or {}).values(), result) if torch.is_tensor(x)]
        # A number on the host may be an operand of a kernel on the device: it is an argument then.
        if len({x.device.type for x in tensors if x.dim()}) > 1:
            self.calls.append(str(func))
        return result


@pytest.mark.slow  # a third of a second for every objective
@pytest.mark.parametrize("name", [name for name in every.CASES if name != WAITS])
def test_a_step_reads_nothing_back_from_the_device(name, tmp_path):
    objective, batch = every.case_of(name, tmp_path, layers=1)
    batch, optimizer = to_device(objective.prepare(batch), META), optimizer_of(objective)
    meta_step(objective, optimizer, batch)  # a teacher of states moves to the device with the first
    with _Copies() as copies:
        result, norm = meta_step(objective, optimizer, batch)
    assert copies.calls == []
    assert norm.device == result.loss.device == META
    assert any(p.grad is not None for p in objective.parameters())


AT = 12
STEPS = 15


def guard(place, **state):
    return LossGuard(tiny.training(place), None, None, state)


def falling(count, seed):
    """Losses as a training has them: falling from 50 to 15, a tenth of noise."""
    rng = np.random.default_rng(seed)
    return (15 + 35 * np.exp(-np.arange(count) / 50)) * rng.normal(1, 0.1, count).clip(0.7, 1.3)


@pytest.mark.parametrize("seed", range(20))
def test_a_loss_a_thousand_times_as_large_is_seen_and_no_other(tmp_path, seed):
    losses = falling(300, seed)
    at = int(np.random.default_rng(seed).integers(10, 300))
    assert not any(map(guard(tmp_path).is_spike, losses))
    losses[at] *= 1e3
    spikes = guard(tmp_path)
    assert [step for step, loss in enumerate(losses) if spikes.is_spike(loss)] == [at]


def test_the_rare_hard_batch_of_a_mixture_is_usual_and_a_new_level_soon_is_too(tmp_path):
    losses = [4.0 if step % 10 == 7 else 0.3 for step in range(200)]
    assert not any(map(guard(tmp_path).is_spike, losses))
    assert not any(map(guard(tmp_path).is_spike, [0.0] * 10 + [0.3] * 10))
    spikes = guard(tmp_path, losses=[1.0] * 10)
    assert [spikes.is_spike(9.0) for _ in range(30)] == [True] * 3 + [False] * 27


def jumping(at=(AT,), factor=1e3):
    """Passes of one data set; the gold of the steps ``at`` is a thousand times as large."""
    usual = tiny.passes_of(tiny.rows(tiny.SIMILARITY))

    def steps(start):
        for step, passes in enumerate(usual(start), start):
            times = factor if step in at else 1.0
            yield [batch | {"labels": batch["labels"] * times} for batch in passes]

    return steps


def learned(place, at=(AT,), steps=None, **options):
    objective = tiny.supervised(tasks=(tiny.SIMILARITY,))
    made = tiny.training(place, steps=STEPS, **options)
    train(objective, steps or jumping(at), made)
    path = place / "events.jsonl"
    events = read_rows(path) if path.is_file() else []
    return objective, [event for event in events if event["kind"] == "loss_spike"]


def test_a_spike_is_an_event_with_its_rows_and_a_quiet_run_has_none(tmp_path, caplog):
    """The first three are warned of."""
    at = (AT - 1, AT, AT + 1, AT + 2)
    assert learned(tmp_path / "quiet", at=())[1] == []
    _, events = learned(tmp_path / "loud", at=at)
    assert [event["step"] for event in events] == list(at)
    rows = tiny.stream(tiny.rows(tiny.SIMILARITY)).row_numbers(AT - 1).tolist()
    assert (events[0]["datasets"], events[0]["rows"]) == (["d_similarity"], rows)
    assert events[0]["loss"] > 1e3 * events[0]["largest_before"]
    warnings = [one.getMessage() for one in caplog.records if "jumped" in one.getMessage()]
    assert len(warnings) == 3
    assert all("events.jsonl" in warning for warning in warnings)


def stopped_and_resumed(place, at):
    """As ``learned``, of a run that is stopped before ``AT`` and goes on."""
    broken = tiny.halted(jumping(at), AT)
    with pytest.raises(InterruptedRunError):
        learned(place, steps=broken, save_every_steps=AT)
    return learned(place, at, save_every_steps=AT)


def test_a_run_that_was_stopped_amid_spikes_counts_on(tmp_path):
    """They are measured by the losses before, wherever the run was stopped."""
    level = range(AT - 2, STEPS)
    straight, events = learned(tmp_path / "straight", at=level)
    assert events[0]["step"] == AT - 2
    resumed, again = stopped_and_resumed(tmp_path / "resumed", at=level)
    assert [event | {"time": ""} for event in again] == [event | {"time": ""} for event in events]
    assert tiny.same(resumed, straight)


@pytest.fixture
def deferred(monkeypatch):
    """Losses are read at rows of the journal only, as on a GPU."""
    always = property(lambda _: True, lambda *_: None)
    monkeypatch.setattr(LossGuard, "deferred", always, raising=False)


def diverged(place, **options):
    """A run whose labels are not finite at step ``AT``: its weights and its error."""
    objective, steps = tiny.supervised(tasks=(tiny.SIMILARITY,)), jumping(factor=float("inf"))
    with pytest.raises(DivergedError) as raised:
        train(objective, steps, tiny.training(place, steps=STEPS, **options))
    return objective, str(raised.value)


def test_losses_that_are_read_late_end_a_run_with_the_same_error_and_weights(tmp_path, request):
    at_once, error = diverged(tmp_path / "at_once")
    request.getfixturevalue("deferred")
    late, late_result = diverged(tmp_path / "late", log_every_steps=STEPS)
    assert late_result.replace("late", "at_once") == error
    assert f"step {AT}: gradient norm" in error
    assert tiny.same(late, at_once)
