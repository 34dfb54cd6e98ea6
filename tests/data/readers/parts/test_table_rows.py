"""Rows of tables, whatever the format of the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from road_ray.data.readers.parts.table_rows import delimiter_of, json_shape, table_rows
from road_ray.data.readers.squad import read_squad
from road_ray.errors import DataError

ROWS = [{"text": "a fine, long film", "label": "good"}, {"text": "é", "label": "bad"}]
FLAT = [
    {
        "id": "q1",
        "title": "t",
        "context": "Ada wrote the first program in 1843.",
        "question": "Who wrote it?",
        "answers": {"text": ["Ada"], "answer_start": [0]},
    },
    {
        "id": "q2",
        "title": "t",
        "context": "Ada wrote the first program in 1843.",
        "question": "Why?",
        "answers": {"text": [], "answer_start": []},
    },
]


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    """Write rows as ``datasets`` and people write them, by the name of the file."""
    import datasets

    made = datasets.Dataset.from_list(rows)
    match path.suffix:
        case ".parquet":
            made.to_parquet(path)
        case ".jsonl":
            made.to_json(path)
        case ".json":
            path.write_text(json.dumps(rows, indent=1))
        case ".saved":
            made.save_to_disk(path, num_shards=2)
        case ".shards":
            path.mkdir()
            for number in range(2):
                made.shard(2, number, contiguous=True).to_parquet(path / f"{number}.parquet")
    return path


FORMATS = [".parquet", ".jsonl", ".json", ".saved", ".shards"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_has_the_same_rows(tmp_path, suffix):
    place = write(tmp_path / f"rows{suffix}", ROWS)
    assert [row for _, row in table_rows(place)] == ROWS


@pytest.mark.parametrize("suffix", [*FORMATS, "data"])
def test_flat_squad_rows_are_the_questions_of_squad_json(tmp_path, suffix):
    nested = tmp_path / "nested.json"
    questions = [
        {"id": "q1", "question": "Who wrote it?", "answers": [{"text": "Ada", "answer_start": 0}]},
        {"id": "q2", "question": "Why?", "answers": []},
    ]
    paragraph = {"context": FLAT[0]["context"], "qas": questions}
    nested.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    if suffix == "data":  # an array below the key of SQuAD's own layout
        place = tmp_path / "rows.json"
        place.write_text(json.dumps({"data": FLAT}))
    else:
        place = write(tmp_path / f"rows{suffix}", FLAT)
    read = [(q.id, q.question, q.context, q.answers) for q in read_squad(place)]
    assert read == [(q.id, q.question, q.context, q.answers) for q in read_squad(nested)]


def test_flat_rows_that_are_wrong_are_named(tmp_path):
    moved = FLAT[0] | {"answers": {"text": ["Bob"], "answer_start": [0]}}
    place = write(tmp_path / "rows.jsonl", [moved])
    with pytest.raises(DataError, match=r"rows.jsonl:1 answer_start=0: 'Bob' expected, 'Ada'"):
        read_squad(place)


@pytest.mark.parametrize(
    ("content", "shape"),
    [
        ('{"data": [{"paragraphs": []}]}', "document"),
        ('{\n "data": [{"paragraphs": []}]}', "document"),
        ('{"a": 1}\n{"a": 2}\n', "lines"),
        ('{"a": 1}\n', "lines"),
        ('{"a": 1\n{"a": 2}\n', "document"),
        ('{"a": 1,}\n{"a": 2}\n', "lines"),  # the reader of lines names line and column
        ('\ufeff [{"a": 1}]', "array"),
        ('{"text": "' + "x" * (1 << 20) + '"}\n{"text": "y"}\n', "lines"),
    ],
)
def test_json_has_a_shape(tmp_path, content, shape):
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")
    if len(content) > 1 << 20:
        shape = "document"  # a first line longer than what is looked at
    assert json_shape(path) == shape


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [("a,b", ","), ("a;b", ";"), ("a\tb", "\t"), ('"a, b";c', ";"), ("a", ","), ("a;b,c,d", ",")],
)
def test_the_delimiter_is_that_of_the_header(tmp_path, header, delimiter):
    path = tmp_path / "x.csv"
    path.write_text(f"{header}\n")
    assert delimiter_of(path) == delimiter


def test_a_csv_with_semicolons_is_read(tmp_path):
    (tmp_path / "x.csv").write_text("text;label\na, b;good\n")
    assert [row for _, row in table_rows(tmp_path / "x.csv")] == [{"text": "a, b", "label": "good"}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "text,label\na,b\n".encode("utf-16"), "it is UTF-16.*iconv -f utf-16 -t utf-8"),
        ("x.json", '[{"text": "a"}]'.encode("utf-16"), "it is UTF-16.*iconv -f utf-16 -t utf-8"),
        ("x.csv", b"text,label\na,b,c\n", r"x.csv:2: 3 columns, expected 2\n  fix: quote cells"),
        ("x.csv", b"text,label\ra,b\r", r"x.csv:1: broken CSV.*end lines with a newline"),
        ("x.json", b"[1, 2]", r"\[0\] is no JSON object; seen 1"),
        ("x.json", b'{"a":\n 1}', "neither an array of objects nor one object a line"),
        ("x.arrow", b"ARROW", "damaged or cut-off Arrow file"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"(?s){message}"):
        list(table_rows(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.csv", "a line of more than 64 MiB"),
        pytest.param("x.json", "one JSON value of more than 2 GiB", marks=pytest.mark.long),
    ],
)
def test_a_line_of_two_gigabytes_is_refused_without_reading_it(tmp_path, name, message):
    with (tmp_path / name).open("wb") as file:
        file.write(b'{"text": "')
        file.truncate((2 << 30) + 1)  # sparse: no disk is used
    with pytest.raises(DataError, match=message):
        list(table_rows(tmp_path / name))


def test_an_empty_folder_holds_no_table(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(DataError, match=r"holds no parquet or Arrow file; found: notes\.txt"):
        list(table_rows(tmp_path))


def test_an_arrow_file_whose_offsets_lead_out_of_it_is_refused(tmp_path):
    """Arrow itself would read memory that is not there, which ends the process."""
    import pyarrow as pa

    path = tmp_path / "x.arrow"
    table = pa.table({"text": ["fine!", "dull"]})
    with pa.ipc.new_stream(str(path), table.schema) as stream:
        stream.write_table(table)
    offsets = b"".join(number.to_bytes(4, "little") for number in (0, 5, 9))
    content = path.read_bytes()
    assert content.count(offsets) == 1
    path.write_bytes(content.replace(offsets, offsets[:8] + (2**30).to_bytes(4, "little")))
    with pytest.raises(DataError, match="damaged or cut-off Arrow file"):
        list(table_rows(path))
