"""Trackers: what holds for all of them, and what only one of them can show. Each is started twice
for one run directory, in a process that is full of secrets.
"""

import os
import subprocess
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from road_ray.errors import ConfigError
from road_ray.training.monitoring.metrics_journal import Journal, read_rows
from road_ray.training.monitoring.trackers import mlflow_tracker, tensorboard_tracker, wandb_tracker

CONFIG = {
    "hf_token": "CANARYkey",
    "nested": [{"password": "CANARYnested"}],
    "optimizer": {"peak_lr": 0.125},
    "note": "see CANARYkey",
    "url": "https://u:CANARYurl@host",
    "marker": "harmless-text",
}
NAMED = ("project", "name", CONFIG)
PACKAGES = {"wandb": "wandb", "mlflow": "mlflow", "tensorboard": "tensorboardX"}
REACHED = {
    "wandb": lambda place: wandb_tracker(*NAMED, place),
    "mlflow": lambda place: mlflow_tracker(f"sqlite:///{place}/mlflow.db", *NAMED, place),
    "tensorboard": tensorboard_tracker,
}
NOWHERE = {
    "wandb": REACHED["wandb"],
    "mlflow": lambda place: mlflow_tracker("http://127.0.0.1:9", *NAMED, place),
}
CHILD = """
import sys
from pathlib import Path
from road_ray.training.monitoring import trackers
from tests.training.monitoring import test_trackers
kinds, place, trackers.START_TIMEOUT_SECONDS = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
print("CANARYprinted")
test_trackers.start_twice(getattr(test_trackers, kinds), place)
"""


def start_twice(trackers, root):
    """A row, then the same and another, for every tracker that is installed."""
    for last in (1, 2):
        if last == 2:
            time.sleep(1.0)  # wandb names its files by the second
        for kind in filter(installed, trackers):
            (root / kind).mkdir(exist_ok=True)
            start = {kind: partial(trackers[kind], root / kind)}
            with Journal(root / kind, console="plain", trackers=start) as journal:
                for step in range(1, last + 1):
                    row = {f"train/row_{step}": 1.0, "train/norm": float("nan")}
                    journal.write(step, {"train/loss": 1 / step} | row)


def installed(kind):
    return find_spec(PACKAGES[kind]) is not None


def started(kinds, root, seconds, **environment):
    checkout = str(Path(__file__).parents[3])
    settings = {"HOME": str(root), "PYTHONPATH": checkout, "HF_TOKEN": "CANARYenviron"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, kinds, str(root), seconds, "--hub.token=CANARYargument"],
        env=os.environ | settings | environment,
        cwd=root,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture(scope="module")
def reached(tmp_path_factory):
    """A run directory of each tracker."""
    key = {"WANDB_API_KEY": "CANARY" + "0" * 34}
    return started("REACHED", tmp_path_factory.mktemp("reached"), "60", **key)


@pytest.fixture(scope="module")
def nowhere(tmp_path_factory):
    """A run directory of each tracker that has a server, where none answers."""
    given = {"WANDB_API_KEY": "0" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9"}
    given["WANDB_MODE"] = "online"
    return started("NOWHERE", tmp_path_factory.mktemp("nowhere"), "2", **given)


def contents(place):
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.fixture
def kind(request):
    if not installed(request.param):
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize("kind", REACHED, indirect=True)
def test_every_row_arrives_also_when_a_figure_is_no_number(reached, kind):
    assert not (reached / kind / "events.jsonl").exists(), "the tracker was left out"
    sent = b"".join(
        content for path, content in contents(reached / kind).items() if path.suffix != ".jsonl"
    )
    for step in (1, 2):
        assert b"train/row_%d" % step in sent


@pytest.mark.slow
@pytest.mark.parametrize("kind", REACHED, indirect=True)
def test_no_secret_is_in_what_it_leaves(reached, kind):
    """Nor, with wandb, anything of the process beside its configuration."""
    private = [b"CANARY"]
    if kind == "wandb":
        private += [sys.executable.encode(), os.fsencode(Path(__file__).parents[3])]
    for path, content in contents(reached / kind).items():
        assert not [word for word in private if word in content], path


@pytest.mark.slow
@pytest.mark.parametrize("kind", NOWHERE, indirect=True)
def test_a_server_that_cannot_be_reached_costs_an_event_a_start_and_no_row(nowhere, kind):
    assert [row["step"] for row in read_rows(nowhere / kind / "metrics.jsonl")] == [1, 1, 2]
    events = read_rows(nowhere / kind / "events.jsonl")
    assert [event["kind"] for event in events] == ["tracker_failed"] * 2
    assert "127.0.0.1" in events[0]["error"]


@pytest.mark.parametrize(("kind", "module"), [("wandb", "wandb"), ("mlflow", "mlflow")])
def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch, kind, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"pip install 'road-ray\[{kind}\]"):
        REACHED[kind](tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wandb"], indirect=True)
def test_wandb_has_the_configuration_and_one_id(reached, kind):
    records = [path for path in contents(reached / kind) if path.suffix == ".wandb"]
    assert len(records) == 2  # offline, each start has a file; they are joined when they are sent
    assert len({path.stem.rpartition("-")[2] for path in records}) == 1
    assert all(b"harmless-text" in path.read_bytes() for path in records)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mlflow"], indirect=True)
def test_mlflow_has_the_configuration_and_one_run_with_each_step_once(reached, kind):
    from mlflow.tracking import MlflowClient

    known = MlflowClient(tracking_uri=f"sqlite:///{reached / kind}/mlflow.db")
    (run,) = known.search_runs([known.get_experiment_by_name("project").experiment_id])
    assert (run.info.run_name, run.info.status) == ("name", "FINISHED")
    assert run.data.params["optimizer.peak_lr"] == "0.125"
    assert run.data.params["marker"] == "harmless-text"
    assert run.data.metrics == {"train/loss": 0.5, "train/row_1": 1.0, "train/row_2": 1.0}
    losses = known.get_metric_history(run.info.run_id, "train/loss")
    assert [loss.step for loss in losses] == [1, 2]


def events_of(run):
    """The events in TensorBoard's files, the oldest first: length, checksum, event, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted((run / "tensorboard").iterdir()):
        content = path.read_bytes()
        while content:
            length = int.from_bytes(content[:8], "little")
            yield Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]


@pytest.mark.parametrize("kind", ["tensorboard"], indirect=True)
def test_tensorboard_has_each_step_of_a_resumed_run_once(tmp_path, kind):
    first = REACHED[kind](tmp_path)
    for step in (1, 2, 3):
        first.log(step, {"loss": 1.0})
    first.close(True)
    again = REACHED[kind](tmp_path)
    again.log(2, {"loss": 1.0})
    again.close(False)
    events = [event for event in events_of(tmp_path) if not event.file_version]
    found = [(event.session_log.status, event.step) for event in events]
    assert found == [(1, 1), (0, 1), (0, 2), (0, 3), (1, 2), (0, 2)]  # 1: hides from this step on
