"""Compressed files give their bytes, and damaged ones say so."""

from __future__ import annotations

import gzip
import lzma

import pyarrow as pa
import pytest

from road_ray.data.readers.text_files import numbered_lines
from road_ray.errors import DataError
from road_ray.system.compression import SUFFIXES, open_bytes

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
