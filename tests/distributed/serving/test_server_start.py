"""Start of the server on a cluster that others use: how long it waits, and what ends the wait."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from road_ray.distributed import room
from road_ray.distributed.room import SCALE_UP_VARIABLE
from road_ray.distributed.serving import server
from road_ray.distributed.serving.config import ServingConfig
from road_ray.distributed.serving.server import Listening, require_room
from road_ray.errors import ClusterError
from tests.ports import free_port
from tests.published import publish

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]


class Holder:
    """Actor that takes the whole cluster."""

    def ready(self):
        pass


@pytest.fixture
def busy(cluster, monkeypatch):
    """A cluster whose cores are all in use, which a server waits for half a second."""
    monkeypatch.setattr(room, "_BUSY_SECONDS", 0.5)
    holder = cluster.remote(num_cpus=4)(Holder).remote()
    cluster.get(holder.ready.remote())
    yield cluster
    cluster.kill(holder)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("model") / "sentiment"
    return str(publish(place, "electra", "ForSequenceClassification", labels=("no", "yes")))


@pytest.mark.usefixtures("busy")
def test_require_room_refuses_a_busy_cluster():
    with pytest.raises(ClusterError, match="2 replicas wait for room") as caught:
        require_room(ServingConfig(model="m", replicas=2))
    assert caught.value.exit_code == 4


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_serve_model_ends_its_wait_for_machines_at_the_first_signal(model, monkeypatch, number):
    late, plain = [], server.require_room

    def require_room(config):
        threading.Timer(1.0, os.kill, [os.getpid(), number]).start()
        plain(config)

    monkeypatch.setenv(SCALE_UP_VARIABLE, "60")
    monkeypatch.setattr(server, "require_room", require_room)
    before = signal.signal(signal.SIGTERM, lambda *_: late.append(number))
    began = time.monotonic()
    try:
        server.serve_model(ServingConfig(model=model), Listening(port=free_port()))
        assert signal.getsignal(signal.SIGTERM) is not signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert time.monotonic() - began < 40
    assert not late
