"""Fixtures: run and sweep directories as the recipes write them."""

import json
from pathlib import Path

import pytest

from tests.row_files import write_rows

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module", autouse=True)
def _drawn(drawn_figures):
    """Every page is as users see it."""


def write_run(directory: Path, *, seed: int = 0, f1: float = 60.0, **settings: object) -> Path:
    """A distillation of eight rows; ``settings`` go into its configuration."""
    directory.mkdir(parents=True)
    config = {
        "run_dir": str(directory),
        "seed": seed,
        "init": "runs/mtl",
        "data": {"dataset": "squad_v2", "root": "nowhere"},
        "optimizer": {"max_grad_norm": 1.0},
        "distillation": {"host": "process", "lookahead": 2, "temperature": 2.0},
        "weighting": {"rule": "correctness"},
        **settings,
    }
    rows = [
        {
            "step": step,
            "train/squad_v2": 4.0 / step,
            "train/squad_v2_soft": 1.0 / step,
            "train/grad_norm": 2.0,
            **{f"teachers/right_{number}": 10.0 * (number + 1) for number in range(4)},
            "time/step_seconds": 1.0,
            "time/data_seconds": 0.5,
            "time/teacher_wait_seconds": 0.4,
            "time/tokens_per_second": 100.0,
        }
        for step in range(1, 9)
    ]
    metrics = {
        "eval/squad_v2/f1": f1,
        "eval/squad_v2/total": 100,
        "eval/squad_v2/no_answer_predicted": 98,
        "eval/squad_v2/no_answer_total": 50,
    }
    (directory / "config.resolved.yaml").write_text(json.dumps(config))  # JSON is YAML
    write_rows(directory / "metrics.jsonl", rows)
    (directory / "metrics.json").write_text(json.dumps(metrics))
    environment = {"command": ["road", "distill"], "packages": {"torch": "2.13.0"}}
    (directory / "environment.json").write_text(json.dumps(environment))
    return directory


def write_sweep(directory: Path, *, front: bool = False) -> Path:
    """Twelve trials, the last has failed; the value is highest at ``weighting.wrong`` 0.7."""
    import optuna
    from optuna.distributions import CategoricalDistribution, FloatDistribution
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState, create_trial

    directory.mkdir(parents=True)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        study_name=directory.name,
        storage=JournalStorage(JournalFileBackend(str(directory / "study.journal"))),
        directions=["maximize", "minimize"] if front else ["maximize"],
    )
    space = {
        "weighting.wrong": FloatDistribution(0.0, 1.0),
        "distillation.temperature": FloatDistribution(1.0, 16.0, log=True),
        "weighting.rule": CategoricalDistribution(["mean", EVIL]),
    }
    for number in range(12):
        params = {
            "weighting.wrong": (number % 4) / 4,
            "distillation.temperature": 2.0 ** (number % 3),
            "weighting.rule": ["mean", EVIL][number % 2],
        }
        value = 60.0 - 10 * (params["weighting.wrong"] - 0.7) ** 2 + number / 100
        steps = {} if front else {step: value - 5 + step / 10 for step in (10, 20, 30)}
        told = {"values": [value, 10.0 + number][: 1 + front]}
        told |= {"user_attrs": {"deviation": [0.5, None], "seconds": 12.0}}
        if number == 11:
            told = {"state": TrialState.FAIL, "user_attrs": {"reason": f"diverged {EVIL}"}}
        told |= {"params": params, "distributions": space, "intermediate_values": steps}
        study.add_trial(create_trial(**told))
    metric = ["eval/squad_v2/f1", "cost/seconds"][: 1 + front]
    settings = {"name": directory.name, "metric": metric, "space": {}}
    (directory / "sweep.resolved.yaml").write_text(json.dumps(settings))
    return directory


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    """One run."""
    return write_run(tmp_path / "student-1", seed=1)


@pytest.fixture(scope="session")
def sweep_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One sweep; not to be written to."""
    return write_sweep(tmp_path_factory.mktemp("sweeps") / "weighted")


@pytest.fixture(scope="session")
def front_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One sweep of two metrics; not to be written to."""
    return write_sweep(tmp_path_factory.mktemp("sweeps") / "front", front=True)


@pytest.fixture(scope="session", name="write_run")
def write_run_fixture():
    """``write_run(directory, seed=, f1=, **settings)``."""
    return write_run
