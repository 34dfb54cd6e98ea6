"""An S3-compatible server on the loopback interface; storages."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from uuid import uuid4

import pytest
from pyarrow import fs

from road_ray.system.remote_files import Storage


@contextmanager
def object_store(bucket: str) -> Iterator[str]:
    """Yield ``host:port`` of a server with an empty bucket; its keys are in the environment."""
    server = pytest.importorskip("moto.server", reason="needs moto[s3], flask, flask-cors")
    first = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        first.start()
        stack.callback(first.stop)
        host = ":".join(map(str, first.get_host_and_port()))
        given = {"scheme": "http", "region": "us-east-1", "allow_bucket_creation": True}
        fs.S3FileSystem(endpoint_override=host, **given).create_dir(bucket)
        yield host


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
