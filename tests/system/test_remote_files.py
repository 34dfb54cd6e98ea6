"""Files of an object store: read in chunks, repeated when the connection is lost."""

import gzip
import socket
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from road_ray.data.corpus.documents import Documents
from road_ray.data.readers.tables import numbered_lines
from road_ray.errors import ConfigError, DataError, ResourceError
from road_ray.system import remote_files as module
from road_ray.system.remote_files import Storage, address_below, is_address, retried


def test_a_path_is_no_address_and_settings_stay_behind_one_and_an_unknown_scheme_is_refused():
    places = ("s3://bucket/x", "cache/corpus", "hub:name")
    assert [is_address(place) for place in places] == [True, False, False]
    assert address_below("s3://b/x/?region=r", Path("y")) == "s3://b/x/y?region=r"
    assert address_below("cache", Path("y")) == "cache/y"
    for address in ("nothing://x", "https://host/text.txt"):
        with pytest.raises(ConfigError, match=rf"{address}: no storage of that.*\n.*allowed"):
            Storage(address).list_files()


def test_files_are_listed_read_and_written(stored_in_s3):
    first = stored_in_s3("files")
    for name in ("b.txt", "a/c.txt"):
        first.write(f"{first.base}/{name}", b"0123456789")
    again = Storage(first.address)
    entries = again.list_files()
    assert [entry.path.removeprefix(first.base) for entry in entries] == ["/a/c.txt", "/b.txt"]
    assert [entry.size for entry in entries] == [10, 10]
    assert again.read(entries[0].path, 8, 5) == b"89"
    assert again.shown(entries[0].path) == f"{first!s}/a/c.txt"
    assert "endpoint" not in str(first)
    assert first.find(f"{first.base}/nowhere") is None


def test_text_of_every_layout_is_streamed(stored_in_s3, tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr(module, "_CHUNK_BYTES", 64)
    first = stored_in_s3("text")
    pq.write_table(pa.table({"id": [1, 2], "text": ["P1", "P2"]}), tmp_path / "x.parquet")
    with pa.ipc.new_stream(str(tmp_path / "x.arrow"), pa.schema({"text": pa.string()})) as writer:
        writer.write_table(pa.table({"text": ["A1"]}))
    zipped = pa.compress(b"Z\n", codec="zstd", asbytes=True)
    content = {
        "a.txt.gz": gzip.compress(b"One.\n\nTwo.\n\n" * 50),
        "b/x.parquet": (tmp_path / "x.parquet").read_bytes(),
        "c.jsonl": b'{"text": "C"}\n',
        "d.arrow": (tmp_path / "x.arrow").read_bytes(),
        "e.txt.zst": zipped,
        "README.md": b"not a document",
    }
    for name, value in content.items():
        first.write(f"{first.base}/{name}", value)
    assert list(Documents(first.address)) == ["One.", "Two."] * 50 + ["P1", "P2", "C", "A1", "Z"]


@pytest.fixture
def pauses(monkeypatch):
    """The pauses between attempts, which take no time."""
    slept, now = [], [0.0]

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(module.time, "sleep", sleep)
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return slept


def test_a_lost_connection_is_tried_again_with_growing_pauses(pauses):
    action = Mock(side_effect=[OSError("connection reset")] * 4 + ["done"])
    assert retried(action, "x: cannot be read") == "done"
    assert pauses == [0.5, 1, 2, 4]


@pytest.mark.parametrize(
    ("error", "told", "attempts"),
    [
        (OSError("connection reset"), "connection reset", 6),
        *((error, type(error).__name__, 6) for error in (BrokenPipeError(), TimeoutError("\n"))),
        (OSError("AWS Error ACCESS_DENIED during GetObject"), "AWS", 1),  # no repetition mends it
        (FileNotFoundError(2, "no such file"), ".*no such file", 1),
    ],
)
def test_a_store_that_stays_away_is_given_up_within_half_a_minute(pauses, error, told, attempts):
    action = Mock(side_effect=error)
    message = (
        rf"x: cannot be read: {told}.*\n(?s:.)*{attempts} attempts(?s:.)*fix(?s:.)*kept: .*resume"
    )
    with pytest.raises(ResourceError, match=message):
        retried(action, "x: cannot be read")
    assert action.call_count == attempts
    assert sum(pauses) <= 30


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_told_in_seconds(monkeypatch):
    """Its own client would be silent for 100 s before the first of our attempts has failed."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setattr(module, "_GIVE_UP_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        settings = f"endpoint_override={host}&scheme=http&region=us-east-1"
        began = time.monotonic()
        with pytest.raises(ResourceError, match=r"s3://texts/a(?s:.)*1 attempts(?s:.)*resume"):
            Storage(f"s3://texts/a?{settings}").read("texts/a", 0, 10)
    assert time.monotonic() - began < 30


def test_a_file_that_is_written_while_it_is_read_is_refused(stored):
    first = stored("changing")
    path = f"{first.base}/a.txt"
    first.write(path, b"One.\n\nTwo.\n")
    documents = iter(Documents(first.address))
    assert next(documents) == "One."
    first.write(path, b"One.\n\nTwo and more.\n")
    with pytest.raises(DataError, match=r"a\.txt: changed while it was read(?s:.)*fix"):
        list(documents)


def test_a_shorter_file_is_no_end_of_the_text(stored, pauses):
    first = stored("short")
    first.write(f"{first.base}/a.txt", b"One.\n\nTwo.\n")
    (file,) = first.list_files()
    file = replace(file, size=file.size + 10)
    with pytest.raises(OSError, match="shorter than when it was listed"):
        file.open().read()
    with pytest.raises(ResourceError, match=r"cannot be read: .*shorter than when it was listed"):
        list(numbered_lines(file))  # no damage of a compressed file
