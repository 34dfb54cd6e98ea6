"""What runs with teachers and workers in other processes print: nothing of Ray's own."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.cluster import until

pytestmark = [pytest.mark.ray, pytest.mark.long, pytest.mark.timeout(600)]
NOISE = re.compile(r"\x1b|\(raylet\)|repeated \d+x|retries|Traceback|ray\.", re.I)


@pytest.fixture
def start(flags, sentiment, teachers, tmp_path):
    """Start a distillation with teachers in actors; give its process and run directory."""
    started = []

    def start(**changes):
        options = {"data.batch_size": 8, "training.steps": 8, "training.log_every_steps": 1}
        listed = teachers.directory / "teachers.json"
        more = {"distillation.teachers": listed, "distillation.host": "actors"}
        words = flags(sentiment | options | more | {"run_dir": tmp_path / "run"} | changes)
        with (tmp_path / "said").open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "road_ray", "distill", *words],
                stdout=file, stderr=subprocess.STDOUT, env=os.environ | {"RAY_ADDRESS": ""},
            )  # fmt: skip
        started.append(process)
        return process, tmp_path / "run", tmp_path / "said"

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_run_that_ends_says_nothing_of_ray(start):
    process, _, said = start(console="plain")
    assert process.wait(300) == 0, said.read_text()
    assert NOISE.findall(said.read_text()) == [], said.read_text()


def test_a_run_that_is_stopped_says_so_and_nothing_of_ray(start):
    process, run, said = start(**{"training.steps": 100000})
    rows = run / "metrics.jsonl"
    assert until(lambda: rows.is_file() and len(rows.read_text()) >= 900, 240, 0.5), (
        said.read_text()
    )
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 6, said.read_text()
    assert NOISE.findall(said.read_text()) == [], said.read_text()
    assert "resume" in said.read_text()
    assert json.loads(rows.read_text().splitlines()[-1])
