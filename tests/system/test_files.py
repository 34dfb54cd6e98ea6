"""Compressed streams, JSON records, digests and paths of files: what is damaged, missing or out of
reach is told by the name of the file or key.
"""

import gzip
import lzma
import pwd
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest

from road_ray.data import miniature
from road_ray.data.load_split import resolve_root
from road_ray.data.readers.tables import numbered_lines
from road_ray.distributed.connection import token_path
from road_ray.errors import CheckpointError, ConfigError, DataError, ResourceError
from road_ray.recipes.preflight_checks import require_init
from road_ray.system.files import (
    SUFFIXES,
    cache_home,
    hashes_of,
    open_bytes,
    path_of,
    problems_of,
    read_json,
    sha256_of,
    staged_directory,
    write_json_atomic,
)

CONTENT = b"one\n" + bytes(range(65, 91)) * 2000 + b"\ntwo\n"
PACK = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: pa.compress(content, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("suffix", ["", *SUFFIXES])
def test_every_kind_gives_the_bytes_that_were_packed(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(PACK.get(suffix, bytes)(CONTENT))
    with open_bytes(path) as stream:
        assert stream.read() == CONTENT
    assert [line for _, line in numbered_lines(path)][::2] == ["one", "two"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_cut_short_or_no_archive_is_told(tmp_path, suffix):
    packed = PACK[suffix](CONTENT)
    for content in (packed[: len(packed) // 2], b"this is no archive, by far"):
        path = tmp_path / f"a.txt{suffix}"
        path.write_bytes(content)
        with pytest.raises(DataError, match="the compressed file is damaged or cut short"):
            list(numbered_lines(path))


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
    path.unlink()
    with pytest.raises(ResourceError, match=rf"{path}: .*No such file"):
        read_json(path, error=ResourceError)


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


def test_problems_of_tells_what_is_wrong_with_each_file(tmp_path):
    names = ["whole", "cut", "flipped", "gone", "folder"]
    for name in names:
        (tmp_path / name).write_text("abc")
    files = hashes_of(tmp_path, [tmp_path / name for name in names])
    assert files["whole"] == {"bytes": 3, "sha256": sha256_of(tmp_path / "whole")}
    assert problems_of(tmp_path, files) == []
    (tmp_path / "cut").write_text("ab")
    (tmp_path / "flipped").write_text("abd")
    for name in ("gone", "folder"):
        (tmp_path / name).unlink()
    (tmp_path / "folder").mkdir()
    assert problems_of(tmp_path, files)[:3] == [
        "cut has 2 bytes, 3 were written",
        "flipped has the right size but other content (sha256 differs)",
        "gone is missing",
    ]
    assert len(problems_of(tmp_path, files)) == 4
    del files["whole"]["sha256"]  # a flipped bit of its name
    assert len(problems_of(tmp_path, files)) == 5


@pytest.fixture
def homeless(monkeypatch):
    """As ``docker --user 12345``: no HOME, and a number that no user has."""
    for name in ("HOME", "ROAD_CACHE", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", Mock(side_effect=KeyError))


def test_a_home_is_written_out_and_other_paths_are_left(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROAD_CACHE", raising=False)
    assert path_of("~/a", "data.root") == tmp_path / "a"
    assert path_of("a/b", "data.root") == Path("a/b")
    assert cache_home() == tmp_path / ".cache" / "road_ray"


@pytest.mark.parametrize("text", ["x" * 5000, "~nobody-of-this-name/x", "/a\x00b" * 2])
def test_a_path_that_cannot_be_looked_at_is_told_with_its_key(text, monkeypatch):
    if "\x00" not in text:
        monkeypatch.setenv("ROAD_DATA", text)
        with pytest.raises(ConfigError, match="ROAD_DATA = ") as caught:
            resolve_root(None)
        assert len(str(caught.value)) < 400
    with pytest.raises(ConfigError, match=r"data\.root = .*"):
        resolve_root(text)


def test_without_a_home_the_cache_must_be_named(homeless):
    with pytest.raises(ConfigError, match=r"ROAD_CACHE = .*: Could not determine home"):
        resolve_root("miniature")
    with pytest.raises(ConfigError, match=r"data\.root = ~/x"):
        resolve_root("~/x")


def test_other_places_below_a_home_are_told_too(homeless):
    with pytest.raises(ConfigError, match=r"init = ~/x: Could not determine home"):
        require_init("~/x")
    with pytest.raises(ConfigError, match=r"RAY_AUTH_TOKEN_PATH = ~/.ray/auth_token: Could not"):
        token_path()


@pytest.mark.parametrize("place", ["file", "file/below", "/proc", "/proc/nothing"])
def test_a_cache_that_cannot_be_written_is_told(place, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROAD_CACHE", str(tmp_path / place))
    with pytest.raises(ResourceError, match=r"(?s)cannot be unpacked.*ROAD_CACHE="):
        miniature.cached()


def test_a_directory_that_cannot_be_written_whole_leaves_what_was_there(tmp_path):
    def write(text, error=None):
        with staged_directory(tmp_path / "hf") as staged:
            (staged / "config.json").write_text(text)
            if error:
                raise error

    write("1")
    with pytest.raises(OSError, match=r"No space.*hf'"):  # a write that fails has no name
        write("2", OSError(28, "No space left on device"))
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]
    assert (tmp_path / "hf" / "config.json").read_text() == "1"
    write("3")
    assert (tmp_path / "hf" / "config.json").read_text() == "3"
