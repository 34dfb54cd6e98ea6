"""Clusters looked at from outside, with a dashboard of the test's own."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest

from road_ray.distributed import cluster_check
from tests.distributed.web_service import Service, serving


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


def rows_by_name(address):
    return {row.name: row for row in cluster_check.cluster(address)}


def test_a_cluster_with_our_token_and_version_is_good(home, dashboard):
    rows = rows_by_name(dashboard[1])
    assert all(row.ok for row in rows.values())
    assert "asks for a token" in rows["authentication"].value


def test_an_open_cluster_is_a_problem_with_its_remedy(home, dashboard):
    dashboard[0]["token"] = None
    row = rows_by_name(dashboard[1])["authentication"]
    assert not row.ok
    assert "RAY_AUTH_MODE=token" in row.fix


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"token": "another"}, "does not take our token"),
        ({"version": "2.59.0"}, "Ray 2.59.0 there"),
    ],
)
def test_another_token_and_another_version_are_problems(home, dashboard, change, expected):
    dashboard[0].update(change)
    row = rows_by_name(dashboard[1])["cluster"]
    assert not row.ok
    assert expected in row.value
    assert row.fix
    assert "the-token" not in row.value + row.fix


def test_no_token_and_no_cluster_are_problems(home, dashboard):
    home.unlink()
    assert not rows_by_name(dashboard[1])["cluster"].ok
    assert "nothing answers" in rows_by_name("http://127.0.0.1:9")["cluster"].value


def test_a_token_for_all_to_read_is_a_problem(home):
    assert cluster_check.token().ok
    home.chmod(0o644)
    row = cluster_check.token()
    assert not row.ok
    assert "chmod 600" in row.fix
    home.unlink()
    assert cluster_check.token().ok
