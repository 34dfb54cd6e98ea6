"""Raw lines and rows, and the messages about them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from road_ray.data.readers.parts.table_rows import parquet_rows, table_rows
from road_ray.data.readers.parts.text_files import (
    check_text,
    first_faults,
    missing_columns,
    numbered_lines,
    parse_json_line,
)
from road_ray.errors import DataError, ResourceError, shorten


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
    assert check_text("\U0001f600 é", "f:1", "a") == "\U0001f600 é"


def test_messages_list_five_and_count_the_rest() -> None:
    assert first_faults(list("ab")) == "a\n  b"
    assert first_faults(list("abcdefg")) == "a\n  b\n  c\n  d\n  e\n  and 2 more"
    assert shorten("x" * 81) == "x" * 80 + "..."
    assert shorten("x" * 80) == "x" * 80
    result = missing_columns("f:1", ["premise", "q"], ["premis", "label"])
    assert result.startswith("f:1: no column 'premise', 'q'; found: premis, label; nearest: ")
    assert (
        "'premise' -> 'premis'\n  fix: correct the header of the file; for a data set of your own"
        in result
    )


def told_by(path: Path, *words: str) -> None:
    """Reading the table gives an error of ours that says all these words."""
    with pytest.raises(DataError) as caught:
        list(table_rows(path))
    for word in (path.name, "fix:", *words):
        assert word in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(("name", "separator"), [("x.csv", ","), ("x.tsv", "\t")])
def test_a_column_that_stands_twice_is_refused_with_its_line(
    tmp_path: Path, name: str, separator: str
) -> None:
    path = tmp_path / name
    path.write_text("a,label,a\n1,2,3\n".replace(",", separator))
    told_by(path, f"{name}:1: the header names 'a' twice", "columns: a, label, a")


def test_a_parquet_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "x.parquet"
    pq.write_table(pa.table([["a"], ["b"], ["c"]], names=["text", "text", "x"]), path)
    told_by(path, "the header names 'text' twice")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' occurs twice"),
        ('{"a": {"b": 1, "b": 2}}', "the key 'b' occurs twice"),
        ('{"a": ' + "9" * 5000 + "}", "4300 digits"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep"),
    ],
)
def test_json_that_no_row_should_hold_is_refused_with_its_line(
    tmp_path: Path, line: str, word: str
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n' + line + "\n")
    told_by(path, "x.jsonl:2: ", word)


def test_a_cell_may_be_long(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"a,b\n{'x' * 200_000},2\n")
    ((_, row),) = table_rows(path)
    assert len(str(row["a"])) == 200_000


def test_what_the_system_does_not_let_us_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(ResourceError, match=r"x\.csv: cannot be read: Is a directory\n  fix"):
        list(table_rows(tmp_path / "x.csv"))
