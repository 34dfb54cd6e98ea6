"""Checks of ``road check``, of this machine and of clusters, with a dashboard of the test's own;
and the environment that a run records.
"""

from __future__ import annotations

import json
import shutil
from collections import namedtuple
from importlib.metadata import version

import pytest

from road_ray.distributed.environment_check import check_cluster, check_token, environment, findings
from tests.distributed.web_service import Service, serving


@pytest.mark.parametrize(
    ("total", "free", "what", "found", "mend"),
    [
        (2**40, 2**30, "disk", "1.0 GiB free here", "free space"),
        (64 * 2**20, 2**40, "shared memory", "0.1 GiB", "--shm-size"),
    ],
)
def test_too_little_space_is_a_problem(monkeypatch, world, total, free, what, found, mend):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(total, 1, free))
    rows, good = findings(None, str(world))
    (row,) = [row for row in rows if row["what"] == what]
    assert (row["found"], row["state"], good) == (found, "PROBLEM", False)
    assert mend in row["mend"]


def test_the_environment_holds_no_arguments(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/road", "finetune", "tracking.key=secret"])
    assert environment()["command"] == ["road", "finetune"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".ray").mkdir()
    token = tmp_path / ".ray" / "auth_token"
    token.write_text("the-token-of-this-cluster")
    token.chmod(0o600)
    return token


@pytest.fixture
def dashboard():
    """Asks for ``settings["token"]`` when there is one, and tells ``settings["version"]``."""
    settings = {"token": "the-token-of-this-cluster", "version": version("ray")}

    class Dashboard(Service):
        def do_GET(self):
            wanted = settings["token"]
            given = self.headers["Authorization"]
            good = wanted is None or given == f"Bearer {wanted}"
            body = json.dumps({"ray_version": settings["version"]})
            self.answer(*((200, body) if good else (401,)))

    with serving(Dashboard) as address:
        yield settings, f"http://{address}"


def test_a_cluster_with_our_token_and_version_is_good(home, dashboard):
    assert check_cluster(dashboard[1])["state"] == "ok"


@pytest.mark.parametrize(
    ("change", "expected", "mend"),
    [
        ({"token": None}, "", "RAY_AUTH_MODE=token"),  # open to everybody
        ({"token": "another"}, "does not take our token", ""),
        ({"version": "2.59.0"}, "Ray 2.59.0 there", ""),
    ],
)
def test_another_token_and_another_version_are_problems(home, dashboard, change, expected, mend):
    dashboard[0].update(change)
    row = check_cluster(dashboard[1])
    assert row["state"] == "PROBLEM"
    assert expected in row["found"]
    assert row["mend"]
    assert mend in row["mend"]
    assert "the-token" not in row["found"] + row["mend"]


def test_no_token_and_no_cluster_are_problems(home, dashboard):
    home.unlink()
    assert check_cluster(dashboard[1])["state"] == "PROBLEM"
    assert "does not answer as Ray does" in check_cluster("http://127.0.0.1:9")["found"]


def test_a_token_for_all_to_read_is_a_problem(home):
    assert check_token()["state"] == "ok"
    home.chmod(0o644)
    row = check_token()
    assert row["state"] == "PROBLEM"
    assert "chmod 600" in row["mend"]
    home.unlink()
    assert check_token()["state"] == "ok"
