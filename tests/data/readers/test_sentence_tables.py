"""Tables of sentences: what is read, what is dropped, and every fault with its file and line."""

from __future__ import annotations

import csv
import gzip
import json
import logging
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from road_ray.data.readers.sentence_tables import read_table
from road_ray.data.task_and_dataset import Columns
from road_ray.errors import DataError

PAIR = Columns(("a", "b"), label="gold")
read_glue_tsv = partial(read_table, unquoted=True)


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def tsv(tmp_path: Path) -> Path:
    return tmp_path / "train.tsv"


def test_columns_are_found_by_name_in_any_order(tsv: Path) -> None:
    write(tsv, "gold\tid\tb\ta\nyes\t7\tsecond\tfirst\n")

    (row,) = read_glue_tsv(tsv, Columns(("a", "b"), label="gold", id="id"))
    assert (row.id, row.texts, row.label, row.where) == (
        "7", ("first", "second"), "yes", f"{tsv}:2",
    )  # fmt: skip


def test_columns_are_found_by_number_without_a_header(tsv: Path) -> None:
    write(tsv, "gj04\t1\t\tOne more.\nks08\t0\t*\tThe boat.\n")

    rows = read_glue_tsv(tsv, Columns((3,), label=1))
    assert [(r.id, r.texts, r.label) for r in rows] == [
        ("0", ("One more.",), "1"),
        ("1", ("The boat.",), "0"),
    ]


def test_quotes_are_letters(tsv: Path) -> None:
    write(tsv, 'a\tb\tgold\n" He said\tit is "so\t1\n"\t""\t0\n')

    assert [r.texts for r in read_glue_tsv(tsv, PAIR)] == [('" He said', 'it is "so'), ('"', '""')]


def test_bom_crlf_and_unusual_line_separators_do_no_harm(tsv: Path) -> None:
    write(tsv, "\ufeffa\tb\tgold\r\nx\u2028y\tz\x85\t1\r\n\r\n")

    (row,) = read_glue_tsv(tsv, PAIR)
    assert (row.texts, row.label) == (("x\u2028y", "z\x85"), "1")


def test_a_file_without_labels_gives_none_unless_labels_are_demanded(tsv: Path) -> None:
    write(tsv, "a\tb\nx\ty\n")

    assert read_glue_tsv(tsv, PAIR)[0].label is None
    with pytest.raises(DataError, match="no column 'gold'; found: a, b"):
        read_glue_tsv(tsv, PAIR, labelled=True)


def test_rows_without_gold_are_dropped_and_counted(
    tsv: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tsv, "a\tb\tgold\nx\ty\t-\nx\ty\tyes\n")

    (row,) = read_glue_tsv(tsv, PAIR)
    assert (row.id, row.where) == ("1", f"{tsv}:3")
    assert "dropped 1 rows without a label" in caplog.text


def test_a_file_of_nothing_but_dropped_rows_is_an_error(tsv: Path) -> None:
    write(tsv, "a\tb\tgold\nx\ty\t-\n")
    with pytest.raises(DataError, match=r"train.tsv: 0 usable rows of 1 \(1 have no label\)"):
        read_glue_tsv(tsv, PAIR)


@pytest.mark.parametrize("content", ["", "a\tb\tgold\n"])
def test_a_file_without_rows_is_an_error(tsv: Path, content: str) -> None:
    with pytest.raises(DataError, match="0 usable rows of 0"):
        read_glue_tsv(write(tsv, content), PAIR)


def test_a_missing_column_names_the_nearest(tsv: Path) -> None:
    write(tsv, "sentense1\tsentence2\tgold\nx\ty\t1\n")
    with pytest.raises(DataError, match=r"train.tsv:1: no column 'sentence1'.*'sentense1'"):
        read_glue_tsv(tsv, Columns(("sentence1", "sentence2")))


def test_a_column_that_stands_twice_is_refused(tsv: Path) -> None:
    write(tsv, "a\tb\tgold\tb\nx\ty\t1\tz\n")
    with pytest.raises(DataError, match=r"train.tsv:1: the header names 'b' twice"):
        read_glue_tsv(tsv, PAIR)


@pytest.mark.parametrize("line", ["x\ty", "x\ty\tz\t1"])
def test_a_row_with_other_tabs_is_named_with_its_line(tsv: Path, line: str) -> None:
    write(tsv, f"a\tb\tgold\nx\ty\t1\n{line}\n")
    with pytest.raises(DataError, match=r"1 of 2 rows(.|\n)*train.tsv:3: \d columns, expected 3"):
        read_glue_tsv(tsv, PAIR)


def test_one_broken_row_in_a_thousand_is_dropped_as_in_official_qqp(
    tsv: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tsv, "a\tb\tgold\n" + "x\ty\t1\n" * 1000 + "broken\n")

    assert len(read_glue_tsv(tsv, PAIR)) == 1000
    assert f"dropped 1 broken rows: {tsv}:1002" in caplog.text


def test_repeated_ids_are_listed_up_to_five(tsv: Path) -> None:
    write(tsv, "id\ta\n" + "".join(f"{n}\tx\n" for n in range(7)) * 2)
    with pytest.raises(DataError) as raised:
        read_glue_tsv(tsv, Columns(("a",), id="id"))
    text = str(raised.value)
    assert "7 examples repeat an id" in text
    assert f"id '0' at {tsv}:9, first at {tsv}:2" in text
    assert "'4'" in text
    assert "'5'" not in text
    assert "and 2 more" in text


def test_bytes_that_are_not_utf8_are_named_with_line_and_byte(tsv: Path) -> None:
    write(tsv, "a\tb\tgold\nx\tcaf\xe9\t1\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"train.tsv:2: not UTF-8: byte 0xe9 at byte 6"):
        read_glue_tsv(tsv, PAIR)


def test_nul_bytes_are_named_with_their_line(tsv: Path) -> None:
    write(tsv, "a\tb\tgold\nx\ty\x00\t1\n")
    with pytest.raises(DataError, match=r"train.tsv:2: NUL byte at byte 4"):
        read_glue_tsv(tsv, PAIR)


def test_gz_is_read_as_plain(tmp_path: Path) -> None:
    path = write(tmp_path / "train.tsv.gz", gzip.compress(b"a\tb\tgold\nx\ty\t1\n"))

    assert read_glue_tsv(path, PAIR)[0].texts == ("x", "y")


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b"no" + b])
def test_damaged_gz_is_named(tmp_path: Path, damage: object) -> None:
    packed = gzip.compress(b"a\tb\tgold\n" + b"x\ty\t1\n" * 9)
    path = write(tmp_path / "train.tsv.gz", damage(packed))  # type: ignore[operator]
    with pytest.raises(DataError, match=r"train.tsv.gz:\d+: the gz stream is damaged"):
        read_glue_tsv(path, PAIR)


def test_jsonl_keeps_order_and_writes_labels_as_json_does(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        '{"a": "\\u00e9", "b": "y", "gold": true}\n\n{"a": "x", "b": "y", "gold": 3}\n'
        '{"a": "x", "b": "y", "gold": "no"}\n',
    )
    rows = read_table(path, PAIR)
    assert [(r.id, r.label, r.where) for r in rows] == [
        ("0", "true", f"{path}:1"), ("1", "3", f"{path}:3"), ("2", "no", f"{path}:4"),
    ]  # fmt: skip
    assert rows[0].texts == ("é", "y")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"a": "x", "b": }', "broken JSON at column 17"),
        ('{"a": "x", "b": "y"', "broken JSON at column 20"),
        ('["x"]', "a JSON object was expected"),
        ('{"a": "x", "gold": 1}', "no column 'b'; found: a, gold"),
        ('{"a": "x", "b": 4, "gold": 1}', "column 'b' must be text, seen 4"),
        ('{"a": "x", "b": "\\ud800", "gold": 1}', r"lone surrogate U\+D800 at character 0"),
        ('{"a": "x", "b": "y"}', "no column 'gold'"),
    ],
)
def test_a_broken_json_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    good = '{"a": "x", "b": "y", "gold": 1}\n'
    path = write(tmp_path / "x.jsonl", good * 2 + line + "\n" + good)
    with pytest.raises(DataError, match=rf"x.jsonl:3: .*{says}"):
        read_table(path, PAIR, labelled=True)


def test_csv_cells_may_hold_commas_quotes_and_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", 'a,b,gold\n"x, ""y""","one\ntwo",1\nx,y,0\n')

    rows = read_table(path, PAIR)
    assert [(r.texts, r.label, r.where) for r in rows] == [
        (('x, "y"', "one\ntwo"), "1", f"{path}:3"),
        (("x", "y"), "0", f"{path}:4"),
    ]


@pytest.mark.parametrize("line", ["x,y", 'x,"y,1'])
def test_ragged_and_broken_csv_is_named(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "x.csv", f"a,b,gold\nx,y,1\n{line}\n")
    with pytest.raises(DataError, match=r"x.csv:3: "):
        read_table(path, PAIR)


def test_parquet_rows_are_read_by_name(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"gold": [1, 0], "b": ["y", "z"], "a": ["x", "w"]}), path)

    rows = read_table(path, PAIR, labelled=True)
    assert [(r.texts, r.label) for r in rows] == [(("x", "y"), "1"), (("w", "z"), "0")]


@pytest.mark.parametrize("kind", ["parquet", "saved"])
def test_class_minus_one_of_a_local_copy_is_no_label(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    import datasets

    path = tmp_path / "x.parquet" if kind == "parquet" else tmp_path / "x"
    made = datasets.Dataset.from_dict({"a": ["x", "y"], "b": ["z", "z"], "gold": [-1, 1]})
    made = made.cast_column("gold", datasets.ClassLabel(names=["no", "yes"]))
    made.to_parquet(path) if kind == "parquet" else made.save_to_disk(path)

    assert [r.label for r in read_table(path, PAIR)] == [None, "1"]
    assert [(r.id, r.label) for r in read_table(path, PAIR, labelled=True)] == [("1", "1")]
    assert "dropped 1 rows without a label" in caplog.text
    mapped = read_table(path, PAIR, labelled=True, mapped={"-1": "yes"})
    assert [r.label for r in mapped] == ["-1", "1"]


def test_labels_of_every_type_are_text(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "x.parquet"
    for values, text in (([Decimal("4.5")], "4.5"), ([date(2026, 1, 2)], "2026-01-02")):
        pq.write_table(pa.table({"gold": values, "b": ["y"], "a": ["x"]}), path)
        assert read_table(path, PAIR, labelled=True)[0].label == text


def test_a_cut_off_parquet_file_is_named(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": ["x"] * 100}), path)
    write(path, path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"x.parquet: damaged or cut-off parquet"):
        read_table(path, Columns(("a",)))


def test_long_lines_are_read_whole(tsv: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tsv, "a\n" + "x" * 10_000_000 + "\n")
    with caplog.at_level(logging.WARNING):
        assert len(read_glue_tsv(tsv, Columns(("a",)))[0].texts[0]) == 10_000_000
    assert not caplog.text


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl"])
def test_empty_labels_are_dropped_and_counted_where_labels_are_needed(tmp_path, name, caplog):
    cells = [("a", "yes"), ("b", ""), ("c", "no"), ("d", "")]
    mark = "," if name == "x.csv" else "\t"
    text = "".join(f"{mark.join(row)}\n" for row in [("text", "label"), *cells])
    if name == "x.jsonl":
        rows = [{"text": a, "label": b or None} for a, b in cells]
        text = "".join(json.dumps(row) + "\n" for row in rows)
    path = write(tmp_path / name, text)
    columns = Columns(("text",), label="label")
    read = partial(read_table, path, columns, unquoted=name == "x.tsv")
    assert [(r.texts[0], r.label) for r in read(labelled=True)] == [("a", "yes"), ("c", "no")]
    assert "dropped 2 rows without a label" in caplog.text
    assert [r.texts[0] for r in read()] == ["a", "b", "c", "d"]
    if name != "x.jsonl":  # a map may make a label of an empty cell
        assert len(read(labelled=True, mapped={"": "none"})) == 4


@pytest.mark.parametrize("word", ["null", "NA", "nan", "N/A", "None", "true", "007", "1e5", "inf"])
def test_a_cell_of_a_csv_is_a_word(tmp_path, word):
    path = write(tmp_path / "x.csv", f"text,label\n{word},{word}\nother,b\n")
    first, _ = read_table(path, Columns(("text",), label="label"), labelled=True)
    assert (first.texts, first.label) == ((word,), word)


def test_line_ends_within_a_cell_are_as_written(tmp_path):
    path = write(tmp_path / "x.csv", b'text,label\r\n"a\r\nb",1\r\n"c\nd",0\r\n"e\rf",0\r\n')
    with path.open(newline="", encoding="utf-8") as file:
        cells = [row[0] for row in list(csv.reader(file))[1:]]
    rows = read_table(path, Columns(("text",), label="label"))
    assert [row.texts[0] for row in rows] == cells == ["a\r\nb", "c\nd", "e\rf"]
