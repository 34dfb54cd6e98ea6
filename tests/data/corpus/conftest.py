"""An S3-compatible store for the tests of corpora that lie in one."""

from __future__ import annotations

from uuid import uuid4

import pytest

from road_ray.data.corpus.storage import Storage
from tests.object_store import object_store


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
