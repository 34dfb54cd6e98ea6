"""Secrets of the environment and of the command line stand in nothing that a run leaves."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import road_ray as rr

CANARY = "cAnArY0123456789"
SECRETS = {
    "HF_TOKEN": f"hf_{CANARY}abcdefghijklmnop",
    "WANDB_API_KEY": CANARY + "0" * 24,
    "AWS_SECRET_ACCESS_KEY": f"{CANARY}/aws",
    "MLFLOW_TRACKING_PASSWORD": f"{CANARY}-mlflow",
    "DATABASE_PASSWORD": f"{CANARY}-database",
}


@pytest.fixture
def scratch():
    with tempfile.TemporaryDirectory(prefix="rr", dir="/tmp") as directory:
        yield Path(directory)


def command(scratch, *words):
    """One command in a process of its own, whose Ray lives below ``scratch``."""
    settings = {"TMPDIR": str(scratch), "RAY_TMPDIR": str(scratch), "HOME": str(scratch)}
    return subprocess.run(
        [sys.executable, "-m", "road_ray", *map(str, words)],
        env=os.environ | SECRETS | settings | {"ROAD_CACHE": str(scratch / "cache")},
        cwd=scratch,
        capture_output=True,
        text=True,
        timeout=400,
    )


def holding(place: Path) -> list[str]:
    """Files below a directory that hold a secret."""
    files = [path for path in place.rglob("*") if path.is_file() and not path.is_socket()]
    return [str(path) for path in files if CANARY.encode() in path.read_bytes()]


@pytest.mark.ray
def test_no_secret_is_in_what_a_worker_and_its_cluster_leave(
    cluster, sentiment, tmp_path, monkeypatch
):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    rr.finetune(overrides=sentiment, run_dir=tmp_path / "run", workers=1)
    session = Path(cluster._private.worker._global_node.get_session_dir_path())
    assert list(session.rglob("*worker*"))
    assert holding(tmp_path) + holding(session) == []


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_secret_is_in_what_runs_and_reports_leave(
    flags, sentiment, tmp_path, scratch, record_property
):
    trackers = ["tracking.wandb_project=mine"]
    trackers.append(f"tracking.mlflow_uri=sqlite:///{tmp_path}/mlflow.db")
    settings = [*flags(sentiment), *trackers]
    run = tmp_path / "run"
    done = [
        command(scratch, "finetune", *settings, "--run-dir", run, "--workers", "1"),
        command(scratch, "evaluate", f"init={run}", "--run-dir", tmp_path / "judged"),
        command(scratch, "report", run),
    ]
    assert [item.returncode for item in done[::2]] == [0, 0], done[0].stderr + done[2].stderr
    outputs = [item.stdout + item.stderr for item in done]
    leaks = holding(tmp_path) + holding(scratch) + [text for text in outputs if CANARY in text]
    assert list(scratch.rglob("session_*")), "Ray wrote its logs elsewhere"
    assert list(tmp_path.rglob("*.wandb")), "W&B was not asked"
    record_property(
        "secrets found in what runs, jobs and reports leave",
        f"{len(leaks)}, in runs, reports and the logs of Ray, W&B and MLflow",
    )
    assert leaks == []


FORMS = {
    "user and password": f"https://me:{CANARY}@host/place",
    "user alone": f"https://{CANARY}@host/place",
    **{
        name: f"s3://bucket/place?region=a&{name}={CANARY}"
        for name in ("token", "api_key", "access_token", "password", "pwd", "sig", "key")
    },
    "presigned": f"https://host/x?X-Amz-Credential={CANARY}&X-Amz-Signature={CANARY}",
    "fragment": f"https://host/x#access_token={CANARY}",
    "escaped": f"https://host/x?%74oken={CANARY}",
}
PLACES = ("training.mirror", "tracking.mlflow_uri", "data.root", "init")


@pytest.mark.parametrize("form", ["user alone", "token", "escaped"])
def test_an_address_with_a_key_is_refused_without_being_repeated(
    flags, sentiment, tmp_path, road, form
):
    given = sentiment | dict.fromkeys(PLACES, FORMS[form])
    done = road("finetune", *flags(given), "--run-dir", tmp_path / "run")
    assert done.code == 2
    for key in PLACES:
        assert f"{key} = " in done.err
    assert done.err.count("holds a key") == len(PLACES)
    assert CANARY not in done.out + done.err
    assert holding(tmp_path) == []


def test_a_sweep_over_an_address_with_a_key_is_refused_without_being_repeated(tmp_path, road):
    file = tmp_path / "space.yaml"
    space = {"verb": "finetune", "metric": "m", "space": {"seed": {"choice": [1, 2]}}}
    space |= {"overrides": {"training.mirror": FORMS["token"]}}
    file.write_text(json.dumps(space))
    done = road("sweep", file, "--run-dir", tmp_path / "sweep")
    assert done.code == 2
    assert "overrides" in done.err
    assert CANARY not in done.out + done.err
    assert holding(tmp_path) == [str(file)]


def test_a_record_that_holds_a_key_is_shown_without_it(tmp_path, road):
    """Of an earlier version, or of another hand."""
    (tmp_path / "run").mkdir()
    settings = [f"mirror: {address!r}" for address in FORMS.values()]
    for number, line in enumerate(settings):
        settings[number] = line.replace("mirror", f"mirror_{number}", 1)
    (tmp_path / "run" / "config.resolved.yaml").write_text("\n".join([*settings, "seed: 1"]))
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 1, "loss": 1.0}\n')
    events = [{"kind": "mirror_failed", "error": f"{item}: refused"} for item in FORMS.values()]
    (tmp_path / "run" / "events.jsonl").write_text("".join(f"{json.dumps(e)}\n" for e in events))
    for words in (("runs", "show"), ("runs", "show", "--json"), ("report",)):
        result = road(*words, tmp_path / "run")
        assert result.code == 0, result.err
        assert CANARY not in result.out + result.err
    assert CANARY not in (tmp_path / "run" / "report.html").read_text()
