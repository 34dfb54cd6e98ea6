"""An S3-compatible server on the loopback interface, a line to it that can be cut, storages."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

import pytest
from pyarrow import fs

from road_ray.system.remote_files import Storage


@contextmanager
def object_store(bucket: str) -> Iterator[str]:
    """Yield ``host:port`` of a server with an empty bucket; its keys are in the environment."""
    server = pytest.importorskip("moto.server", reason="needs moto[s3], flask, flask-cors")
    before = {name: os.environ.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    os.environ |= dict.fromkeys(before, "testing")
    first = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    first.start()
    host = ":".join(map(str, first.get_host_and_port()))
    given = {"scheme": "http", "region": "us-east-1", "allow_bucket_creation": True}
    fs.S3FileSystem(endpoint_override=host, **given).create_dir(bucket)
    try:
        yield host
    finally:
        first.stop()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture(scope="session")
def server():
    """The address of an S3-compatible server with a bucket ``texts``."""
    with object_store("texts") as host:
        yield host


@pytest.fixture
def stored(tmp_path):
    """``stored(name)``: a storage of this test alone, an address of a directory."""
    return lambda name: Storage(f"file://{tmp_path / 'storages' / name}")


@pytest.fixture
def stored_in_s3(server):
    """``stored_in_s3(name)``: the storage ``s3://texts/PLACE/name`` of this test alone."""
    place = uuid4().hex[:12]

    def storage(name):
        settings = f"endpoint_override={server}&scheme=http&region=us-east-1"
        return Storage(f"s3://texts/{place}/{name}?{settings}")

    return storage


class Line:
    """A way to a server that can be cut: connections are reset in the middle of an answer.

    ``cut_after(bytes)`` resets the connection that carries this many more; with ``down``, that one
    and every new one.
    """

    def __init__(self, server: str) -> None:
        self._server = server.rpartition(":")[::2]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.down, self.cuts = False, 0
        self._left: int | None = None
        self._stays_down = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, count: int, *, down: bool = False) -> None:
        """Reset the connection that carries this many more bytes of answers."""
        self._left, self._stays_down = count, down

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.down:
                    _reset(client)
                    continue
                server = socket.create_connection((self._server[0], int(self._server[1])))
                for pair in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 12):
                if answers and self._left is not None:
                    self._left -= len(content)
                    if self._left < 0:
                        self._left, self.cuts = None, self.cuts + 1
                        self.down = self._stays_down
                        target.sendall(content[: len(content) // 2])
                        _reset(target)
                        _reset(source)
                        return
                target.sendall(content)
            target.shutdown(socket.SHUT_WR)


def _reset(connection: socket.socket) -> None:
    """Close a connection so that the other side sees a reset, not an end."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RD)
        connection.close()
