"""Rows of tables, whatever the format of the file, and lines of text files."""

import gzip

import pytest

from road_ray.data.readers.layouts import glue_rows
from road_ray.data.readers.tables import numbered_lines, table_rows
from road_ray.data.task_and_dataset import Columns
from road_ray.errors import DataError
from tests.row_files import write_rows

ROWS = [{"text": "a fine, long film", "label": "good"}, {"text": "é", "label": "bad"}]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".json", ".csv", ".tsv"])
def test_every_format_has_the_same_rows(tmp_path, suffix):
    place = write_rows(tmp_path / f"rows{suffix}", ROWS)
    assert [row for _, row in table_rows(place)] == ROWS


@pytest.mark.parametrize("kind", ["saved", "shards"])
def test_a_folder_has_the_rows_of_its_files(tmp_path, kind):
    import datasets

    made = datasets.Dataset.from_list(ROWS)
    if kind == "saved":
        made.save_to_disk(tmp_path / "rows", num_shards=2)
    for number in range(2 * (kind == "shards")):
        made.shard(2, number, contiguous=True).to_parquet(tmp_path / "rows" / f"{number}.parquet")
    assert [row for _, row in table_rows(tmp_path / "rows")] == ROWS


@pytest.mark.parametrize(
    "content",
    [
        *('{"data": [{"a": 1}, {"a": 2}]}', '{"a": 1}\n{"a": 2}\n', '\ufeff [{"a": 1}, {"a": 2}]'),
        '\n[{"a":\n1}, {"a": 2}]',
    ],
)
def test_json_has_rows_in_an_array_or_lines(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")
    assert [row for _, row in table_rows(path)] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("content", "row"),
    [
        *(("a,b\n1;,2\n", {"a": "1;", "b": "2"}), ("a\tb\n1,\t2\n", {"a": "1,", "b": "2"})),
        *(('"a, b";c\n1;2\n', {"a, b": "1", "c": "2"}), ("a\n1;\n", {"a": "1;"})),
        *(("a, b, c;d\n1;2\n", {"a, b, c": "1", "d": "2"}), ("a;b\n1,;2\n", {"a": "1,", "b": "2"})),
        *(("sep=;\na;b\n1;2\n", {"a": "1", "b": "2"}), ("a,,\n1,,\n", {"a": "1", "": ""})),
    ],
)
def test_the_delimiter_is_that_of_the_header(tmp_path, content, row):
    (tmp_path / "x.csv").write_text(content)
    assert [found for _, found in table_rows(tmp_path / "x.csv")] == [row]


def test_cells_may_hold_commas_quotes_line_ends_and_much_text(tmp_path):
    path, long = tmp_path / "x.csv", "x" * 200_000
    path.write_bytes(f'a,b\r\n"x, ""y""","one\r\ntwo"\r\n"e\rf",{long}\r\n'.encode())
    assert list(table_rows(path)) == [
        (f"{path}:3", {"a": 'x, "y"', "b": "one\r\ntwo"}),
        (f"{path}:4", {"a": "e\rf", "b": long}),
    ]


@pytest.mark.parametrize(
    ("rows", "cells"),
    [
        (['"Yes," he said.\t1', 'He "no".\t0'], [['"Yes," he said.', "1"], ['He "no".', "0"]]),
        (['"Yes\t1', '"No"\t0'], [['"Yes', "1"], ['"No"', "0"]]),
        (['1\t"Yes', '2\tNo"'], [["1", '"Yes'], ["2", 'No"']]),
        (['"a ""b"""\t1', 'c\t"d"'], [['a "b"', "1"], ["c", "d"]]),
        (['"a\tb"\t1', '"c"\t0'], [["a\tb", "1"], ["c", "0"]]),
        (['1\t"a', 'b"', "2\tc"], [["1", "a\nb"], ["2", "c"]]),
        (['"a"\t1', "", "b\t2"], [["a", "1"], ["b", "2"]]),
        (['"a', 'b ""c"""', "d"], [['a\nb "c"'], ["d"]]),
        (['"Yes," he said.', "d"], [['"Yes," he said.'], ["d"]]),
    ],
)  # fmt: skip
def test_quotes_of_a_tsv_enclose_cells_or_are_letters(tmp_path, rows, cells):
    path = tmp_path / "x.tsv"
    path.write_text("\n".join(["\t".join("ab"[: len(cells[0])]), *rows, ""]))
    assert [[*row.values()] for _, row in table_rows(path)] == cells


@pytest.mark.parametrize("name", ["MRPC", "RTE", "STS-B", "QNLI", "SST-2"])
def test_published_glue_files_have_the_rows_of_the_catalogue(real_data, name):
    for path in sorted((real_data / "glue" / name).glob("*.tsv")):
        assert [*table_rows(path)] == [*glue_rows(path, Columns(("text",)), True)]


def repeated_column(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table([["a"], ["b"]], names=["text", "text"]), path)
    return path.read_bytes()


def cut_off(path):
    return write_rows(path, ROWS * 50).read_bytes()[:-20]


def offsets_that_lead_out(path):
    """Arrow itself would read memory that is not there, which ends the process."""
    import pyarrow as pa

    table = pa.table({"text": ["fine!", "dull"]})
    with pa.ipc.new_stream(str(path), table.schema) as stream:
        stream.write_table(table)
    offsets = b"".join(number.to_bytes(4, "little") for number in (0, 5, 9))
    content = path.read_bytes()
    assert content.count(offsets) == 1
    return content.replace(offsets, offsets[:8] + (2**30).to_bytes(4, "little"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "text,label\na,b\n".encode("utf-16"), ":1: not UTF-8.*iconv -f utf-16 -t utf-8"),
        ("x.tsv", "a\nx\ncafé\n".encode("latin-1"), ":3: not UTF-8: byte 0xe9 at byte 4.*latin1"),
        ("x.tsv", b"a\nx\x00y\n", r":2: not UTF-8: NUL at byte 2"),
        ("x.csv", b"text,label\na,b,c\n", r":2: 3 columns, expected 2\n  fix: quote cells"),
        ("x.csv", b'text,label\nx,"y\n', r":2: broken CSV"),
        ("x.csv", b"text,label\ra,b\r", r":1: broken CSV.*end lines with a newline"),
        ("x.csv", b"a,label,a\n1,2,3\n", r":1: the header names 'a' twice; columns: a, label, a"),
        ("x.json", b"[1, 2]", r"\[0\] is no JSON object; seen 1"),
        ("x.json", b'{"data": 1}', "is no JSON object"),
        ("x.json", b'[{"a": 1},\n {]', r"broken JSON: .*: line 2 column 3"),
        ("x.jsonl", b'{"a": 1}\n{"a": }\n', r":2: broken JSON: .*column 7"),
        ("x.jsonl", b'{"a": 1}\n[1]\n', r":2: a JSON object was expected"),
        ("x.jsonl", b'{"a": ' + b"[" * 100_000 + b"}", r":1: broken JSON: .*recursion"),
        (
            "x.jsonl.gz",
            gzip.compress(b"{}\n" * 99, mtime=0)[:-9],
            r"x.jsonl.gz:\d+: the compressed file is",
        ),
        ("x.arrow", b"ARROW", "damaged or cut-off arrow file"),
        ("x.arrow", offsets_that_lead_out, "damaged or cut-off arrow file"),
        ("x.parquet", cut_off, "damaged or cut-off parquet file"),
        ("x.parquet", repeated_column, "the header names 'text' twice"),
        ("x.xml", b"<a/>", r"\.xml is not a supported table"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, content, message):
    content = content(tmp_path / name) if callable(content) else content
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"(?s){message}") as caught:
        list(table_rows(tmp_path / name))
    assert str(caught.value).startswith(str(tmp_path / name))
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_are_numbered_from_one_and_have_no_end(tmp_path, suffix):
    content = "\ufeffone\r\n\nthree\u2028\ufeff".encode()
    path = tmp_path / f"x.txt{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    assert list(numbered_lines(path)) == [(1, "one"), (2, ""), (3, "three\u2028\ufeff")]
