"""JSON records are objects, or a typed error names the file."""

from __future__ import annotations

import pytest

from road_ray.errors import CheckpointError, ResourceError
from road_ray.system.json_file import read_json, write_json_atomic


def test_read_json_gives_the_object(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": [1]}')
    assert read_json(path) == {"a": [1]}


@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"[]", b"3", b'"a"', b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5000],
    ids=["empty", "null", "list", "number", "text", "cut", "bytes", "deep", "digits"],
)
def test_read_json_refuses_what_is_no_object(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as refused:
        read_json(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "fix: " in str(refused.value)


def test_read_json_names_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ResourceError, match="No such file") as refused:
        read_json(tmp_path / "a.json", error=ResourceError, fix="make it again")
    assert str(tmp_path / "a.json") in str(refused.value)
    with pytest.raises(CheckpointError, match="Is a directory"):
        read_json(tmp_path)


def test_a_value_that_fails_to_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json_atomic(path, {"a": (1, 2), 3: tmp_path})
    before = path.read_text()
    loop: list = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        write_json_atomic(path, loop)
    assert path.read_text() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]
