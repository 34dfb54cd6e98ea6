"""Raw lines and rows, and the messages about them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from road_ray.data.files import (
    first_of,
    missing_columns,
    numbered_lines,
    parquet_rows,
    parse_json_line,
    shortened,
    well_formed,
)
from road_ray.errors import DataError


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_are_numbered_from_one_and_have_no_end(tmp_path: Path, suffix: str) -> None:
    content = "\ufeffone\r\n\nthree\u2028\ufeff".encode()
    path = tmp_path / f"x.txt{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)

    assert list(numbered_lines(path)) == [(1, "one"), (2, ""), (3, "three\u2028\ufeff")]


def test_lines_before_a_fault_are_given(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"one\ntwo\n\xff\n")
    lines = numbered_lines(path)

    assert [next(lines), next(lines)] == [(1, "one"), (2, "two")]
    with pytest.raises(
        DataError, match=r"x.txt:3: not UTF-8: byte 0xff at byte 1 of the line\n  fix:"
    ):
        next(lines)


def test_parquet_columns_can_be_limited(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), path)

    assert list(parquet_rows(path, ["b"])) == [{"b": "x"}, {"b": "y"}]
    assert list(parquet_rows(path)) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    with pytest.raises(DataError, match="no column 'c'; found: a, b"):
        list(parquet_rows(path, ["c"]))


def test_json_objects_and_well_formed_text_pass() -> None:
    assert parse_json_line('{"a": 1}', "f:1") == {"a": 1}
    assert well_formed("\U0001f600 é", "f:1", "a") == "\U0001f600 é"


def test_messages_list_five_and_count_the_rest() -> None:
    assert first_of(list("ab")) == "a\n  b"
    assert first_of(list("abcdefg")) == "a\n  b\n  c\n  d\n  e\n  and 2 more"
    assert shortened("x" * 81) == "x" * 80 + "..."
    assert shortened("x" * 80) == "x" * 80
    found = missing_columns("f:1", ["premise", "q"], ["premis", "label"])
    assert found.startswith("f:1: no column 'premise', 'q'; found: premis, label; nearest: ")
    assert "'premise' -> 'premis'\n  fix: name the columns" in found
