"""Patience: when a training ends before its last step, with which weights, and after a resume."""

from copy import deepcopy

import pytest

from road_ray.errors import ConfigError, InterruptedRunError
from road_ray.training.config import EarlyStoppingConfig
from road_ray.training.early_stopping import score_of
from road_ray.training.loop import train
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.training.run_context import RunContext
from tests.pair import both
from tests.training import conftest as tiny

SCORES = {2: 50.0, 4: 70.0, 6: 70.0, 8: 60.0, 10: 90.0, 12: 95.0}  # by the steps of the looks


def run(directory, *, halt_at=None, error=None, scores=SCORES, **options):
    """A training whose looks find ``scores``; its objective, and what it was at every look."""
    objective, seen = tiny.supervised(), {}
    stream = tiny.stream(tiny.rows())

    def evaluate():
        seen[taken[0]] = deepcopy(objective)
        return {"eval/d/accuracy": scores[taken[0]], "eval/d/total": 1e6}

    taken = [0]

    def steps(start):
        for number in range(start, 1000):
            taken[0] = number + 1
            yield [stream[number]]

    patience = options.pop("patience", None)
    chosen = {"evaluate_every_steps": 2, "steps": 12} | options
    chosen["early_stopping"] = EarlyStoppingConfig(patience=patience)
    made = tiny.training(directory, evaluate=evaluate, **chosen)
    train(objective, tiny.halted(steps, halt_at, error), made)
    return objective, seen


def test_it_ends_after_so_many_looks_without_a_better_one(tmp_path):
    objective, seen = run(tmp_path / "longer", patience=3)
    assert list(seen) == [2, 4, 6, 8, 10, 12]  # the last step is looked at too
    assert tiny.same(objective, seen[12])
    objective, seen = run(tmp_path, patience=2)
    assert list(seen) == [2, 4, 6, 8]  # 70 is not better than 70
    assert tiny.same(objective, seen[4])
    assert not tiny.same(objective, seen[8])
    (event,) = [e for e in read_rows(tmp_path / "events.jsonl") if e["kind"] == "stopped_early"]
    assert (event["step"], event["best_step"]) == (8, 4)
    assert (tmp_path / "checkpoints" / "step-00000008").is_dir()


def test_without_patience_the_last_weights_stay(tmp_path):
    objective, seen = run(tmp_path, steps=7)
    assert list(seen) == [2, 4, 6]
    assert not tiny.same(objective, seen[4])
    assert not [*tmp_path.rglob("best.safetensors")]


@pytest.mark.parametrize("halt_at", [2, 4, 6])
def test_a_resumed_run_is_as_patient(tmp_path, halt_at):
    objective, _ = run(tmp_path / "straight", patience=2)
    with pytest.raises(InterruptedRunError):
        run(tmp_path / "stopped", patience=2, halt_at=halt_at)
    resumed, _ = run(tmp_path / "stopped", patience=2)
    assert tiny.same(resumed, objective)
    # Ended already: nothing is trained any more, and the best weights are there again.
    (tmp_path / "stopped" / "metrics.jsonl").unlink()
    again, seen = run(tmp_path / "stopped", patience=2, context=(context := RunContext()))
    assert (seen, context.step) == ({}, 8)
    assert tiny.same(again, objective)


@pytest.mark.parametrize(
    ("later", "scores"),
    [
        ({"evaluate_every_steps": 5, "patience": 1}, {5: 55.0}),  # step 6 is not looked at again
        ({"evaluate_every_steps": 2, "patience": 2}, {6: 55.0, 8: 55.0}),  # it is worse this time
    ],
)
def test_weights_of_a_look_that_was_lost_are_not_the_best(tmp_path, later, scores):
    first = {"scores": {2: 50.0, 4: 60.0, 6: 70.0}, "save_every_steps": 4}
    with pytest.raises(RuntimeError, match="gone"):
        run(tmp_path, halt_at=7, error=RuntimeError("gone"), patience=2, **first)
    _, seen = run(tmp_path / "straight", patience=1, scores={2: 50.0, 4: 60.0, 6: 55.0})
    resumed, _ = run(tmp_path, scores=scores, **later)
    assert tiny.same(resumed, seen[4])


def test_quality_is_the_mean_of_the_principal_metrics_or_what_is_watched():
    figures = {"eval/mrpc/accuracy": 80.0, "eval/mrpc/f1": 90.0, "eval/mrpc/total": 408.0}
    assert score_of(figures, None) == 80.0  # listed first: the principal one
    spans = {"eval/squad_v2/exact": 50.0, "eval/squad_v2/f1": 60.0, "eval/squad_v2/best_f1": 70.0}
    assert score_of(figures | spans, None) == 70.0  # (80 + 60) / 2, each data set once
    assert score_of({"eval/m/micro_f1": 90.0, "eval/m/macro_f1": 10.0}, None) == 90.0
    assert score_of({"eval/d/f1_of_a": 10.0, "eval/d/accuracy": 95.0}, None) == 10.0
    assert score_of({"eval/d/accuracy": 95.0, "eval/d/f1_of_n/a": 10.0}, None) == 95.0
    assert score_of({"eval/t/entity_precision": 1.0, "eval/t/entity_f1": 3.0}, None) == 3.0
    with pytest.raises(
        ConfigError, match=r"no figures.*\n  fix: leave early_stopping.patience out"
    ):
        score_of({"train/loss": 1.0}, None)
    assert score_of(figures, "eval/mrpc/f1") == 90.0
    with pytest.raises(ConfigError, match=r"eval/mrpc/f2: no metric of that name\n.*eval/mrpc/f1"):
        score_of(figures, "eval/mrpc/f2")


def shared(worker, directory):
    """What each process does: trainings that both evaluate, the better at step 4."""
    for how, sharded in (("replicas", False), ("parts", True)):
        objective, seen = tiny.supervised(0.0), {}
        steps = tiny.passes_of(tiny.rows(), rank=worker.rank, size=worker.size)

        def evaluate(objective=objective, seen=seen):
            (digest,) = {*worker.union([str(sum(t.double().sum() for t in tensors(objective)))])}
            seen[len(seen) * 2 + 2] = digest  # equal on both
            return {"eval/d/accuracy": SCORES[len(seen) * 2]} if worker.is_main else {}

        config = {"evaluate_every_steps": 2, "steps": 12, "fsdp": sharded}
        config["early_stopping"] = EarlyStoppingConfig(patience=2)
        training = tiny.training(directory / how, evaluate=evaluate, worker=worker, **config)
        train(objective, steps, training)
        assert list(seen) == [2, 4, 6, 8]
        evaluate()
        assert seen[10] == seen[4]  # the best weights, on both


def tensors(objective):
    return [*objective.state_dict().values(), *objective.buffers()]


@pytest.mark.slow
def test_two_workers_evaluate_the_same_weights_also_the_best_ones(tmp_path):
    both(shared, tmp_path, tmp_path, timeout_seconds=100)


def interrupted(worker, directory):
    """What each process does: the second one is told to stop while both evaluate."""
    context = RunContext()
    steps = tiny.passes_of(tiny.rows(), rank=worker.rank, size=worker.size)

    def evaluate():
        assert len(worker.gather(worker.rank)) == (2 if worker.is_main else 0)
        if not worker.is_main:
            context.stop.set()
        return {"eval/d/accuracy": 1.0} if worker.is_main else {}

    options = {"evaluate_every_steps": 2, "steps": 9, "worker": worker, "context": context}
    training = tiny.training(directory, evaluate=evaluate, **options)
    with pytest.raises(InterruptedRunError, match="after step 2 of 9"):
        train(tiny.supervised(0.0), steps, training)


@pytest.mark.slow
def test_a_stop_while_two_workers_evaluate_ends_both_with_a_checkpoint(tmp_path):
    both(interrupted, tmp_path, tmp_path, timeout_seconds=100)
    assert (tmp_path / "checkpoints" / "step-00000002").is_dir()
    (row,) = [r for r in read_rows(tmp_path / "metrics.jsonl") if "eval/d/accuracy" in r]
    assert row["step"] == 2
