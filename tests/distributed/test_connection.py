"""Connection to a cluster, and its token; the checks of ``road check``, of this machine and of
clusters, and the environment that a run records.
"""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import namedtuple
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import pytest
import ray

from road_ray.distributed import connection
from road_ray.distributed import room as plan
from road_ray.distributed.connection import (
    accepts_anonymous,
    connected,
    driver_environment,
    environment_for_workers,
    lets_anybody_join,
    refuse_open,
    start,
)
from road_ray.distributed.environment_check import check_cluster, check_token, environment, findings
from road_ray.distributed.room import SCALE_UP_VARIABLE, fitting, room, scale_up_seconds
from road_ray.errors import ClusterError, ConfigError, ResourceError
from tests.cluster import short_directory
from tests.distributed.web_service import Service, serving


def test_workers_share_variables_of_the_driver_and_keep_those_it_lacks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROAD_DATA", "/data")
    monkeypatch.setenv("ROAD_SCALE_UP_SECONDS", "60")
    monkeypatch.delenv("ROAD_CACHE", raising=False)
    environment = environment_for_workers()
    monkeypatch.chdir("/")
    monkeypatch.delenv("ROAD_DATA")  # the machine of a worker has other ones
    monkeypatch.setenv("ROAD_SCALE_UP_SECONDS", "5")
    monkeypatch.setenv("ROAD_CACHE", "/disk")
    before = dict(os.environ)
    with driver_environment(environment):
        assert Path.cwd() == tmp_path
        changed = {"ROAD_DATA": "/data", "ROAD_SCALE_UP_SECONDS": "60"}
        assert dict(os.environ) == before | changed
    assert dict(os.environ) == before, "a process of Ray may go on with a task of another run"
    before = Path.cwd()
    with driver_environment((str(tmp_path / "elsewhere"), {})):  # which the worker lacks
        assert Path.cwd() == before


def test_a_slow_start_is_tried_again(monkeypatch, caplog):
    init = Mock(side_effect=[Exception("timed out"), Exception("timed out"), None])
    monkeypatch.setattr(ray, "init", init)
    start(1, dashboard=False)
    assert init.call_count == 3
    assert caplog.text.count("trying again") == 2


def test_a_stop_is_told_as_before_also_where_ray_has_a_handler(monkeypatch):
    """A sweep that was stopped ended with -15 and the stack of Ray, not with 6."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(
        connection, "start", lambda *_, **__: signal.signal(signal.SIGTERM, signal.SIG_IGN)
    )
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with connected(None):
            assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_cluster_that_ray_finds_by_itself_is_asked_too(monkeypatch):
    monkeypatch.setattr(connection, "require_token", lambda create: None)
    monkeypatch.setattr(connection, "lets_anybody_join", lambda address: True)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "shutdown", Mock())
    monkeypatch.setattr(ray, "get_runtime_context", lambda: Mock(gcs_address="here:1"))
    with pytest.raises(ClusterError, match=r"here:1: .*lets everybody in"), connected("auto"):
        pass
    ray.shutdown.assert_called_once()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", connection.ACCEPT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "ray", raising=False)  # as in a fresh process
    return tmp_path


@pytest.fixture
def dashboard():
    """A dashboard's settings, and its address: it asks for ``settings["token"]`` when there is one,
    and tells ``settings["version"]``.
    """
    settings = {"token": None, "status": 200, "version": version("ray")}

    class Dashboard(Service):
        def do_GET(self):
            wanted, given = settings["token"], self.headers["Authorization"]
            good = wanted is None or given == f"Bearer {wanted}"
            body = json.dumps({"ray_version": settings["version"]})
            self.answer(settings["status"] if good else 401, body)

    with serving(Dashboard) as address:
        yield settings, f"http://{address}"


def test_a_new_token_is_its_owners_alone(home):
    old = os.umask(0)
    try:
        connection.require_token(create=True)
    finally:
        os.umask(old)
    path = connection.token_path()
    assert path == home / ".ray" / "auth_token"
    assert path.stat().st_mode & 0o777 == 0o600
    first = path.read_text()
    assert len(first) == 64
    assert os.environ.pop("RAY_AUTH_MODE") == "token"
    connection.require_token(create=True)
    assert path.read_text() == first
    path.unlink()
    os.environ["RAY_AUTH_MODE"] = "disabled"
    connection.require_token(create=True)
    assert not path.exists(), "who switched tokens off is left alone"
    os.environ.pop("RAY_AUTH_MODE")


def test_a_token_that_others_can_read_is_closed(home, monkeypatch, caplog, record_property):
    path = home / "elsewhere"
    path.write_text("x" * 32)
    path.chmod(0o644)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(path))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    connection.require_token()
    assert path.stat().st_mode & 0o777 == 0o600
    assert "mode 644" in caplog.text
    assert "x" * 32 not in caplog.text
    record_property("token file", "closed to others (0600) before it is used")


@pytest.mark.parametrize(("code", "open_"), [(200, True), (401, False), (403, False), (500, True)])
def test_an_open_cluster_is_known_by_its_answer(dashboard, code, open_):
    settings, address = dashboard
    settings["status"] = code
    assert accepts_anonymous(address.removeprefix("http://")) is open_
    assert accepts_anonymous(f"{address}/") is open_


def test_an_open_cluster_is_refused_unless_that_is_meant(
    home, dashboard, monkeypatch, record_property
):
    settings, address = dashboard
    with pytest.raises(ClusterError, match=r"lets everybody in(?s:.)*of `road submit`"):
        refuse_open(address, accepts_anonymous)
    refuse_open(address, accepts_anonymous, accepted=True)
    monkeypatch.setenv(connection.ACCEPT, "1")
    refuse_open(address, accepts_anonymous)
    monkeypatch.delenv(connection.ACCEPT)
    settings["token"] = "secret"
    refuse_open(address, accepts_anonymous)
    record_property("cluster without a token", "refused, unless a flag says that it is meant")


@contextmanager
def socket_that(answers):
    """Give the ``host:port`` of a listener that does ``answers(connection)`` for each client."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.recv(4096)
                    answers(connection)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def resets(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    "answers",
    [
        resets,
        lambda connection: connection.sendall(b"\x15\x03\x01\x00\x02\x02\x16"),
        lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n"),
        lambda connection: time.sleep(1.5),
        lambda connection: None,
    ],
    ids=["reset", "garbage", "another protocol", "too slow", "closed"],
)
def test_a_cluster_that_cannot_be_asked_is_refused(home, answers, record_property):
    with socket_that(answers) as address:
        for ask in (accepts_anonymous, lets_anybody_join):
            with pytest.raises(ClusterError, match="could not be checked"):
                refuse_open(address, partial(ask, timeout_seconds=0.5))
        refuse_open(address, accepts_anonymous, accepted=True)
    record_property("token could not be checked", "refused")


@pytest.mark.ray
@pytest.mark.parametrize(
    ("mode", "found"),
    [
        ("disabled", "lets everybody in"),
        pytest.param("token", "free: CPU 1 of 1", marks=pytest.mark.long),
    ],
)
def test_a_head_without_a_dashboard_is_asked_itself(tmp_path, mode, found):
    """Started with and without authentication; joined by another process."""
    with short_directory() as place:
        environment = os.environ | {"HOME": place, "RAY_AUTH_MODE": mode, "RAY_ADDRESS": ""}
        (Path(place) / ".ray").mkdir()
        token = Path(place) / ".ray" / "auth_token"
        token.write_text("a" * 64)
        token.chmod(0o600)
        head = subprocess.Popen(
            [sys.executable, "-c", _HEAD, place], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            address = head.stdout.readline().strip()
            join = subprocess.run(
                [sys.executable, "-m", "road_ray", "check", "--address", address, "--json"],
                env=environment | {"RAY_AUTH_MODE": "token"},
                capture_output=True, text=True, timeout=120,
            )  # fmt: skip
        finally:
            head.communicate("", timeout=60)
    assert join.stdout, join.stderr
    rows = {row["what"]: row["found"] for row in json.loads(join.stdout)}
    assert found in rows["cluster"]
    assert mode == "token" or join.returncode == 4


_HEAD = """
import sys, ray
ray.init(address="local", num_cpus=1, include_dashboard=False, _temp_dir=sys.argv[1] + "/r",
         object_store_memory=80 * 2**20, log_to_driver=False, logging_level="ERROR")
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""


def test_too_little_space_is_a_problem(monkeypatch, world):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2**40, 1, 2**30))
    (row,) = [row for row in findings(None, str(world)) if row["what"] == "disk"]
    assert (row["found"], row["state"]) == ("1.0 GiB free here", "PROBLEM")
    assert "free space" in row["mend"]


def test_the_environment_holds_no_arguments(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/road", "finetune", "tracking.key=secret"])
    assert environment()["command"] == ["road", "finetune"]


@pytest.fixture
def token(home, monkeypatch):
    """The file of our token, which no proxy gets."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    (home / ".ray").mkdir()
    path = home / ".ray" / "auth_token"
    path.write_text("the-token-of-this-cluster")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("change", "expected", "mend"),
    [
        ({"token": None}, "", "RAY_AUTH_MODE=token"),  # open to everybody
        ({"token": "another"}, "does not take our token", ""),
        ({"version": "2.59.0"}, "Ray 2.59.0 there", ""),
    ],
)
def test_another_token_and_another_version_are_problems(token, dashboard, change, expected, mend):
    settings, address = dashboard
    settings["token"] = token.read_text()
    assert check_cluster(address)["state"] == "ok"
    settings.update(change)
    row = check_cluster(address)
    assert row["state"] == "PROBLEM"
    assert expected in row["found"]
    assert row["mend"]
    assert mend in row["mend"]
    assert "the-token" not in row["found"] + row["mend"]


def test_a_token_for_all_to_read_is_a_problem(token):
    assert check_token()["state"] == "ok"
    token.chmod(0o644)
    row = check_token()
    assert row["state"] == "PROBLEM"
    assert "chmod 600" in row["mend"]
    token.unlink()
    assert check_token()["state"] == "ok"


def test_seconds_are_read_from_the_environment_and_other_values_refused(monkeypatch):
    for text, seconds in (("", 0.0), ("0", 0.0), ("90", 90.0), ("1e3", 1e3)):
        monkeypatch.setenv(SCALE_UP_VARIABLE, text)
        assert scale_up_seconds() == seconds
    for text in ("20 min", "-1", "nan", "inf"):
        monkeypatch.setenv(SCALE_UP_VARIABLE, text)
        with pytest.raises(ConfigError, match="no number of seconds"):
            scale_up_seconds()


@pytest.mark.ray
def test_a_cluster_that_adds_nothing_is_waited_for_in_vain(cluster, monkeypatch, caplog):
    monkeypatch.setenv(SCALE_UP_VARIABLE, "1")
    began = time.monotonic()
    with (
        caplog.at_level("INFO", logger="road_ray"),
        pytest.raises(ClusterError, match="room for 0 of 2 workers"),
    ):
        room("workers", 2, {"CPU": 1.0, "moon": 1.0})
    assert 1 <= time.monotonic() - began < 10
    assert "waiting up to 1 s for room, or machines that come" in caplog.text


NODE = {"CPU": 4.0, "GPU": 1.0, "memory": 1e9}


@pytest.mark.parametrize(
    ("requested", "places"),
    [
        ({"CPU": 1.0}, 4),
        ({"CPU": 3.0}, 1),
        ({"CPU": 0.4}, 10),
        ({"CPU": 5.0}, 0),
        ({"CPU": 1.0, "GPU": 0.5}, 2),
        ({"CPU": 1.0, "moon": 1.0}, 0),
        ({"CPU": 0.1}, 40),  # ten tenths fit into one
        ({"GPU": 0.4}, 2),  # a fraction is of one GPU
        ({"GPU": 2.0}, 0),
        ({}, 99),
    ],
)
def test_the_scarcest_resource_decides(requested, places):
    assert fitting(NODE, requested, most=99) == places


def test_what_does_not_fit_is_told_with_asked_and_available(monkeypatch, tmp_path):
    monkeypatch.setattr(plan, "available_resources", lambda: {"CPU": 4.0, "GPU": 2.0})
    plan.check_room(2, 0.5, 3, 0.3)
    with pytest.raises(ClusterError, match=r"CPU +64 +4"):
        plan.check_room(64, 0.0, 0, 0.0)
    with pytest.raises(ClusterError, match=r"GPU +3 +2"):
        plan.check_room(2, 1.0, 1, 1.0)
    with pytest.raises(ClusterError, match=r"(?s)^no room for 1 processes .*GPU +3 +2"):
        plan.check_room(0, 3.0, 0, 0.0)
    with pytest.raises(ConfigError, match="batch_size = 3"):
        plan.check_batch(3, 4)
    assert plan.check_disk(tmp_path / "not" / "there", 1) > 0
    with pytest.raises(ResourceError, match=r"needs 1\d{9}\.00 GiB"):
        plan.check_disk(tmp_path, 1 << 60)
    with pytest.raises(ResourceError, match="a worker needs"):
        plan.check_memory(1 << 60, False, 1)


def test_of_two_first_commands_at_once_one_makes_the_token(home, monkeypatch):
    path = home / ".ray" / "auth_token"

    def overtaken(size):
        path.write_text("that of the other")
        return "f" * 64

    monkeypatch.setattr(connection.secrets, "token_hex", overtaken)
    connection.require_token(create=True)
    os.environ.pop("RAY_AUTH_MODE")
    assert path.read_text() == "that of the other"
    assert [*path.parent.iterdir()] == [path]
