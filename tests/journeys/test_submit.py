"""The guide to clusters, its blocks run as they stand: start, send, send again, stop, go on."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import pytest

from tests.cluster import processes_with, until
from tests.docs.blocks import ROOT, all_blocks
from tests.ports import free_port

pytestmark = [pytest.mark.guide, pytest.mark.ray, pytest.mark.timeout(900)]


def blocks() -> list[tuple[str, str]]:
    matches = all_blocks("docs/guides/cluster.md")
    return [(name, text) for language, name, text in matches if language == "bash"]


@pytest.fixture(scope="module")
def shell(pretrained, teachers, flags):
    """``shell(text)`` runs a block with a home, ports and a token of its own."""
    place = Path(tempfile.mkdtemp(prefix="rh", dir="/tmp"))
    (place / "home").mkdir()
    bin_dir = place / "bin"
    bin_dir.mkdir()
    road = bin_dir / "road"
    road.write_text(f'#!/bin/sh\nexec {sys.executable} -m road_ray "$@"\n')
    road.chmod(0o755)
    dashboard = free_port()
    options = ["--num-cpus=4", "--disable-usage-stats", f"--temp-dir={place / 'ray'}"]
    options += [
        f"--{name}-port={free_port()}" for name in ("dashboard-agent-listen", "ray-client-server")
    ]
    options += ["--object-store-memory=100000000", "--node-ip-address=127.0.0.1"]
    settings = {"training.steps": 1000, "training.log_every_steps": 1, "data.batch_size": 4}
    settings |= {"training.save_every_steps": 10_000, "data.max_judged_rows": 32}
    # The teachers in the job's own process: what is tested is the way there and back.
    settings |= {"distillation.host": "process", "optimizer.peak_lr": 1e-3}
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "ROAD_ACC"))
    }
    environment |= {
        "HOME": str(place / "home"),
        "PATH": f"{bin_dir}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RAY_OPTIONS": " ".join(options),
        "OMP_NUM_THREADS": "1",
    }
    environment |= after_setup(place, environment, pretrained, teachers)
    environment |= {"RAY_AUTH_MODE": "token", "PORT": str(free_port()), "DASHBOARD": str(dashboard)}
    environment["OPTIONS"] += " " + " ".join(flags(settings))

    def run(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=400,
        )

    run.place, run.dashboard = place, dashboard  # type: ignore[attr-defined]
    yield run
    for pid in processes_with(f"HOME={place / 'home'}"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(place, ignore_errors=True)


def after_setup(place, environment, pretrained, teachers) -> dict[str, str]:
    """The variables that the guide's first block sets in a directory as `road demo` leaves it."""
    demo = place / "runs" / "demo"
    shutil.copytree(pretrained.directory, demo / "pretrain")
    shutil.copytree(teachers.directory, demo / "teachers" / "teachers-sst2")
    text = f"{blocks()[0][1]}\nenv -0"
    result = subprocess.run(
        ["bash", "-eu", "-c", text], cwd=place, env=environment, capture_output=True, check=True
    )
    after = dict(item.split("=", 1) for item in result.stdout.decode().split("\0") if item)
    variables = {name: after[name] for name in ("STUDENT", "TEACHERS", "RUN", "HEAD", "OPTIONS")}
    assert Path(variables["STUDENT"]).is_dir()
    assert Path(variables["TEACHERS"]).is_file()
    return variables


def steps_of(run: Path) -> int:
    path = run / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.is_file() else 0


def ended(shell) -> bool:
    logs = list(shell.place.glob("ray/session_latest/logs/job-driver-*"))
    return any("error[" in log.read_text() or "Traceback" in log.read_text() for log in logs)


def test_the_guide_works_as_it_stands(shell):
    (setup, _), (_, start), (_, send), (_, again), (stop, job), (resume, line), *last = blocks()
    assert (setup, stop, resume) == ("setup", "stop", "resume")
    ((down, end),) = last
    assert down == "down"
    run = shell.place / "runs" / "student"

    started = shell(start)
    assert started.returncode == 0, started.stdout + started.stderr
    token = shell.place / "home" / ".ray" / "auth_token"
    assert token.stat().st_mode & 0o077 == 0
    jobs = httpx.get(f"http://127.0.0.1:{shell.dashboard}/api/jobs/", timeout=30)
    assert jobs.status_code == 401

    sent = shell(send)
    assert sent.returncode == 0, sent.stdout + sent.stderr
    assert "-1: sent" in sent.stderr
    until(lambda: steps_of(run) >= 5 or ended(shell), 240, 0.5)
    assert steps_of(run) >= 5, "\n".join(
        path.read_text() for path in shell.place.glob("ray/session_latest/logs/job-driver-*")
    )

    result = shell(again)
    assert "not sent again" in result.stderr
    assert "RUNNING" in result.stdout
    assert token.read_text() not in result.stdout

    stopped = shell(job)
    assert "saved and stopped" in stopped.stdout, stopped.stdout + stopped.stderr
    until(lambda: [*run.glob("checkpoints/step-*")], 120, 0.5)
    (checkpoint,) = run.glob("checkpoints/step-*")
    at = int(checkpoint.name.removeprefix("step-"))
    assert 5 <= at < 1000
    assert not (run / "metrics.json").exists()

    done = shell(line)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resuming from" in done.stdout
    assert (run / "metrics.json").is_file()
    followed = shell(f"road submit --cluster http://127.0.0.1:$DASHBOARD follow {run}")
    assert followed.returncode == 0
    assert "succeeded" in followed.stderr
    assert "resuming from" in followed.stdout
    events = [json.loads(text) for text in (run / "events.jsonl").read_text().splitlines()]
    assert [event["step"] for event in events if event["kind"] == "resumed"] == [at]

    home = f"HOME={shell.place / 'home'}"
    alive = processes_with(home)
    assert shell(end).returncode == 0
    until(lambda: not processes_with(home), 60, 0.5)
    assert (len(alive) > 3, processes_with(home)) == (True, {})
