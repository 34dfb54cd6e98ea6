"""A whole sweep: started, resumed, finished, refused; its best trial and its files."""

import json
import os

import pytest

from road_ray.config import load
from road_ray.distributed.tune.one_trial import Record, trial_directory
from road_ray.distributed.tune.search_config import StageDemand
from road_ray.errors import ConfigError, DataError, DivergedError, ResourceError
from road_ray.recipes.run_directory.run import lock_run_directory
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.sweep import Sweep, _remove_models, check_sources, run
from road_ray.recipes.sweep.trials import load_sweep
from tests.sweeps import leave_trials

BASE = {"verb": "finetune", "metric": "m", "name": "mine", "space": {"x": {"uniform": [0, 1]}}}
RATE = {"optimizer.peak_lr": 1e-3}
SPACE = {"optimizer.peak_lr": {"loguniform": [1e-4, 1e-2]}}


def finished(config, states):
    """As if an earlier start had run all trials."""
    values = {n: (float(n),) if state == "complete" else () for n, state in enumerate(states)}
    leave_trials(config, *(Record(0, RATE, states[n], value) for n, value in values.items()))


@pytest.fixture
def file(tmp_path, sentiment):
    overrides = {n: v for n, v in sentiment.items() if n not in ("console", "optimizer.peak_lr")}
    overrides |= {"training.evaluate_every_steps": 2, "data.max_judged_rows": 20}
    sweep = {"verb": "finetune", "overrides": overrides, "metric": "eval/sst2/accuracy"}
    sweep |= {"trials": 3, "console": "quiet", "max_concurrent": 1, "space": SPACE}
    sweep |= {"run_dir": f"{tmp_path}/sweep"}
    (tmp_path / "mine.yaml").write_text(json.dumps(sweep))
    return tmp_path / "mine.yaml"


DIVERGED = "diverged: step 3: loss nan"


@pytest.mark.parametrize(
    ("reasons", "error", "told"),
    [
        ((DIVERGED, "disk full", "x"), ResourceError, ["2 of 3", "is 1:\n  disk", "retry_failed"]),
        ((DIVERGED,) * 3, DivergedError, ["3 of 3", "is 0:\n  diverged: ", "optimizer.peak_lr"]),
    ],
)
def test_a_sweep_whose_trials_all_fail_names_the_first_failure_and_the_remedy(
    file, reasons, error, told
):
    config = load_sweep(file)
    leave_trials(config, *(Record(0, RATE, "failed", reason=reason) for reason in reasons))
    with pytest.raises(error) as raised:
        run(config)
    assert all(part in str(raised.value) for part in told)


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_failed_trials_are_named_and_tried_again_on_request(file):
    config = load_sweep(file, ["trials=2"])
    finished(config, ["complete", "failed"])
    done = run(config)
    assert [trial.number for trial in done.failed] == [1]
    with pytest.raises(ResourceError, match=r"1 of 2 trials failed, .* 1:[^$]*retry_failed"):
        done.check()
    again = run(load_sweep(file, ["trials=2", "retry_failed=true"]))
    assert [trial.state for trial in again.trials] == ["complete", "failed", "complete"]
    assert (again.trials[2].retry_of, again.trials[2].params) == (1, again.trials[1].params)
    again.check()
    assert len(run(load_sweep(file, ["trials=2", "retry_failed=true"])).trials) == 3


def test_a_sweep_knows_what_its_trials_start(file, teachers):
    listed = teachers.directory / "teachers.json"
    first = teachers.directory / "teacher-0"
    overrides = [f"init={first}", f"overrides.distillation.teachers=[{listed}]"]
    assert check_sources(load_sweep("temperature", overrides)) == ()  # in the trial's process
    actors = [*overrides, "overrides.distillation.host=actors"]
    assert check_sources(load_sweep("temperature", actors)) == ()  # they answer before the trials
    live = load_sweep("temperature", [*actors, "distillation.answers=live"])
    assert check_sources(live) == ()  # the driver starts those that all trials use
    drawn = [*actors, "space={data.max_length_tokens: {int: [32, 64]}}", "points=[]"]
    assert check_sources(load_sweep("temperature", drawn)) == (StageDemand(teachers=True),)
    assert check_sources(load_sweep(file)) == ()
    parallel = load_sweep(file, ["verb=teachers", "overrides.max_concurrent=4"])
    assert check_sources(parallel) == (StageDemand(workers=4, min_workers=1),)  # they may wait


def test_a_sweep_counts_the_processes_of_both_runs(teachers):
    taught = {"distillation.teachers": [f"{teachers.directory}/teachers.json"]}
    taught |= {"distillation.host": "actors", "distillation.resources.GPU": 0.25}
    own = {"workers": 8, "min_workers": 2, "gpus_per_worker": 1, "data.corpus": "miniature"}
    base = {"verb": "pretrain", "overrides": own, "scheduler": "none", "space": SPACE}
    data = {"data.dataset": "sst2", "data.root": "miniature"}
    base |= {"then": {"verb": "distill", "overrides": data | taught}}
    assert check_sources(load(SweepConfig, base=base | {"metric": "eval/sst2/accuracy"})) == (
        StageDemand(workers=8, gpus_per_worker=1.0, min_workers=2),
        StageDemand(teachers=True),
    )


def test_a_second_start_of_the_same_sweep_is_refused(file):
    config = load_sweep(file)
    with (
        lock_run_directory(config.directory),
        pytest.raises(ResourceError, match=f"in use by process {os.getpid()}"),
    ):
        run(config)


def test_another_making_in_the_same_directory_is_refused(file):
    config = load_sweep(file)
    finished(config, ["complete", "pruned", "complete"])
    done = run(config)  # without a cluster: nothing is left to do
    assert [trial.number for trial in done.best] == [2]
    assert json.loads((done.directory / "metrics.json").read_text()) == {}
    assert run(load_sweep(file, ["trials=2"])).best
    with pytest.raises(ConfigError, match=r"overrides\.data\.batch_size: there"):
        run(load_sweep(file, ["data.batch_size=4"]))


SNLI = [
    "then={verb: finetune, overrides: {data.evaluate_on: [snli], data.dataset: mnli}}",
    *("then.overrides.data.root=miniature", "metric=eval/snli/accuracy", "scheduler=none"),
]


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("finetune_glue", [], "init is not given"),
        ("temperature", ["init=hub/name"], r"distillation\.teachers names no teacher"),
        ("mine", ["data.root=."], r"no files of sst2 \(train\)"),
        ("mine", SNLI, r"no files of snli \(dev\)"),
    ],
)
def test_what_every_trial_would_miss_is_told_before_the_first(
    file, tmp_path, monkeypatch, name, overrides, message
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConfigError, DataError), match=message):
        check_sources(load_sweep(file if name == "mine" else name, overrides))


def test_models_of_the_best_stay_and_all_metrics(tmp_path):
    two = {"metric": ["m", "n"], "mode": ["max", "min"], "sampler": "tpe", "scheduler": "none"}
    config = load(SweepConfig, base=BASE | two)
    # Both of the last are beaten by 1, in one metric only.
    values = {0: (0.0, 0.0), 1: (1.0, 1.0), 3: (), 2: (1.0, 9.0), 4: (0.5, 1.0)}
    states = {3: "failed"}
    trials = [Record(n, {}, states.get(n, "complete"), v) for n, v in values.items()]
    for trial in trials:
        for place in ("seed-0/pretrain", "seed-0/finetune"):
            for name in ("checkpoints/step-00000001/model", "hf/model", "metrics.jsonl"):
                path = trial_directory(tmp_path, trial.number) / place / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
    _remove_models(Sweep(tmp_path, config, trials))
    for name, numbers in (("hf", {0, 1}), ("checkpoints", {0, 1}), ("metrics.jsonl", set(values))):
        left = {int(path.parts[-4]) for path in tmp_path.glob(f"trials/*/seed-0/*/{name}")}
        assert left == numbers


def test_the_best_is_never_pruned_failed_or_not_finite():
    values = [(0.5,), (0.9,), (), (float("inf"),), (float("nan"),), (0.6,), (0.6,)]
    states = {1: "pruned", 2: "failed"}
    trials = [Record(n, {}, states.get(n, "complete"), v) for n, v in enumerate(values)]
    for mode, number in (("max", 5), ("min", 0)):
        config = load(SweepConfig, base=BASE | {"mode": mode})
        assert [trial.number for trial in Sweep(None, config, trials).best] == [number]
    assert Sweep(None, config, trials[1:3]).best == []
