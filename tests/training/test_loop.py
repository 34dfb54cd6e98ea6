"""The loop: resuming, stopping, diverging and refusing."""

from functools import partial

import pytest
import torch

from road_ray.data.mixing import draw_datasets, mixed
from road_ray.errors import CheckpointError, DivergedError, InterruptedRunError
from road_ray.models.multitask import MultitaskModel
from road_ray.reporting.health import loss_names
from road_ray.reporting.records.run_record import read_run
from road_ray.training.loop import train
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.objectives.every import KINDS as OBJECTIVES
from tests.objectives.every import objective_of
from tests.training import conftest as tiny

STEPS = 6


def steps_of(kind):
    channels = objective_of(kind, dropout=0.1).noise_channels
    # 3 batches an epoch: two epochs and a half in six steps.
    return tiny.passes_of(tiny.rows(), noise_channels=channels)


electra_steps = partial(steps_of, "electra")


def mixed_steps():
    tasks = (tiny.NLI, tiny.SIMILARITY, tiny.MRC)
    streams = {task.name: tiny.stream(tiny.rows(task)).since for task in tasks}
    draw = partial(draw_datasets, list(streams), 2)
    return lambda start: mixed(streams, lambda step: draw(seed=3, step=step), start=start)


LAMB = {"rates": {"name": "lamb", "layer_decay": 0.8}}
KINDS = {
    **{k: (partial(objective_of, k, dropout=0.1), partial(steps_of, k), {}) for k in OBJECTIVES},
    "electra, LAMB": (tiny.electra, electra_steps, LAMB),  # tied weights
    "supervised": (tiny.supervised, mixed_steps, {}),
    "supervised, LAMB": (tiny.supervised, mixed_steps, LAMB),  # a head without a step
}


def run(kind, directory, *, steps=None, **options):
    make, usual, more = KINDS[kind]
    objective = make()
    train(objective, steps or usual(), tiny.training(directory, **more | options))
    return objective


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """The uninterrupted run of each kind, made once."""
    made = {}

    def of(kind):
        if kind not in made:
            directory = tmp_path_factory.mktemp(kind)
            made[kind] = run(kind, directory), directory
        return made[kind]

    return of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop_at", [0, 4])
def test_a_resumed_run_equals_the_straight_one_bit_for_bit(tmp_path, straight, kind, stop_at):
    expected, directory = straight(kind)
    with pytest.raises(
        InterruptedRunError, match=rf"(?s)after step {stop_at + 1} of {STEPS}.*step-0000000"
    ) as caught:
        run(kind, tmp_path, steps=tiny.halted(KINDS[kind][1](), stop_at))
    assert caught.value.exit_code == 6
    torch.manual_seed(12345)
    resumed = run(kind, tmp_path)
    assert tiny.same(resumed, expected)
    begun = KINDS[kind][0]().state_dict()
    still = [name for name, x in expected.state_dict().items() if torch.equal(begun[name], x)]
    moved = {name.split(".")[0] for name in begun.keys() - still}
    frozen = {"generator"} if kind == "second_stage" else set()
    assert moved == {name.split(".")[0] for name in begun} - frozen
    ours, theirs = (read_rows(d / "metrics.jsonl") for d in (tmp_path, directory))
    assert [row["step"] for row in ours] == list(range(1, STEPS + 1))
    for row, other in zip(ours, theirs, strict=True):
        keep = {name for name in row if not name.startswith("time/")}
        assert {n: row[n] for n in keep} == {n: other[n] for n in keep}


def test_a_run_killed_before_its_first_checkpoint_is_made_again_and_says_so(tmp_path, straight):
    expected, _ = straight("electra")
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n{"step": 3')
    assert tiny.same(run("electra", tmp_path), expected)
    steps = [row["step"] for row in read_rows(tmp_path / "metrics.jsonl")]
    assert steps == list(range(1, STEPS + 1))
    (event,) = read_rows(tmp_path / "events.jsonl")
    assert (event["kind"], event["steps"]) == ("restarted", 2)
    run("electra", tmp_path / "first")
    assert not (tmp_path / "first" / "events.jsonl").exists()


def test_a_changed_identity_is_refused_and_nothing_is_lost(tmp_path):
    run("electra", tmp_path)
    with pytest.raises(
        CheckpointError, match=r"data: then 'abc', now 'xyz'\n    tokenizer: then None"
    ):
        run("electra", tmp_path, identity={"data": "xyz", "tokenizer": "t"})
    assert run("electra", tmp_path) is not None


def test_a_loss_that_is_not_finite_stops_before_the_update(tmp_path, record_property):
    objective = tiny.supervised()
    good = mixed_steps()
    bad = tiny.stream(tiny.rows(tiny.SIMILARITY))[0]
    bad["labels"][0] = float("nan")

    def steps(start):
        source = good(start)
        yield next(source)
        before.update({n: p.detach().clone() for n, p in objective.named_parameters()})
        yield [bad]

    before = {}
    with pytest.raises(DivergedError) as caught:
        train(objective, steps, tiny.training(tmp_path, save_every_steps=1))
    assert caught.value.exit_code == 5
    message = str(caught.value)
    assert "step 1:" in message
    assert "train/d_similarity" in message
    assert str(bad["rows"].tolist()[:8]) in message
    assert "step-00000001; the update was not made" in message
    assert len(before) > 0
    assert all(torch.equal(p, before[n]) for n, p in objective.named_parameters())
    record_property("loss not finite", "ends before the update, exit code 5, rows named")


def test_an_infinite_loss_with_a_finite_gradient_stops_too(tmp_path):
    bad = tiny.stream(tiny.rows(tiny.MRC))[0]
    bad["end_positions"][0] = 2  # in the question, where no answer may end
    with pytest.raises(DivergedError, match=r"(?s)train/d_mrc.*no checkpoint yet") as caught:
        train(tiny.supervised(), lambda start: iter([[bad]]), tiny.training(tmp_path))
    assert caught.value.exit_code == 5


def test_evaluation_is_without_dropout_and_changes_nothing(tmp_path, straight):
    expected, _ = straight("electra")
    objective = tiny.electra()
    modes = []

    def evaluate():
        modes.append(objective.training)
        torch.rand(3)
        return {"eval/x": len(modes)}

    training = tiny.training(tmp_path, evaluate=evaluate, evaluate_every_steps=2)
    train(objective, electra_steps(), training)
    assert modes == [False, False]  # after steps 2 and 4; the end is the recipe's
    assert objective.training
    assert tiny.same(objective, expected)
    rows = [row for row in read_rows(tmp_path / "metrics.jsonl") if "eval/x" in row]
    assert [(row["step"], row["eval/x"]) for row in rows] == [(2, 1), (4, 2)]


def test_the_journal_tells_rate_norm_and_means(tmp_path):
    run("electra", tmp_path, log_every_steps=4)
    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows] == [4, STEPS]
    # The update of step index 3 of 6 after 2 warm-up steps: 1e-3 * (1 - 3 / 6).
    assert rows[0]["train/lr"] == pytest.approx(5e-4)
    assert rows[0]["train/generator"] == pytest.approx(4.1, abs=0.3)  # log(60), untrained
    assert rows[0]["train/discriminator"] < 1
    assert rows[0]["train/grad_norm"] > 0
    # A report judges whether these fall: other values stand in `NO_LOSS` of reporting/health.py.
    assert loss_names(read_run(tmp_path)) == ["train/generator", "train/discriminator"]
    assert {"time/step_seconds", "time/tokens_per_second"} <= rows[0].keys()
    assert 0 < rows[0]["time/mfu"] < 1


def test_bf16_trains_and_keeps_weights_in_fp32(tmp_path):
    objective = run("electra", tmp_path, precision="bf16")
    assert {p.dtype for p in objective.parameters()} == {torch.float32}


@pytest.mark.parametrize(("warmup", "warns"), [(2, True), (1, False)])
def test_a_training_within_its_warmup_is_warned_of(tmp_path, warmup, warns, caplog):
    run("electra", tmp_path, steps=None, total_steps=2, rates={"warmup_steps": warmup})
    assert ("never reaches optimizer.peak_lr" in caplog.text) is warns
    assert ("optimizer.warmup_steps=1" in caplog.text) is warns


def test_checkpoints_on_the_way_leave_dropout_as_it_is(tmp_path, straight, monkeypatch):
    """A thread exports while the next steps draw their dropout."""
    expected, _ = straight("supervised")
    export = MultitaskModel.export

    def repeated(*arguments):
        for _ in range(5):
            export(*arguments)

    monkeypatch.setattr(MultitaskModel, "export", repeated)
    assert tiny.same(run("supervised", tmp_path, save_every_steps=1), expected)
