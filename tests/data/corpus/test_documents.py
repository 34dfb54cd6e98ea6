"""Corpora: parquet, JSONL and plain text, single files and directories."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from road_ray.data.corpus.documents import Documents
from road_ray.errors import DataError


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.txt", "\ufeffOne.\nStill one.\n\n \nTwo.\r\n"),
        ("x.jsonl", '{"text": "One.\\nStill one."}\n{"text": " "}\n{"text": "Two."}\n'),
    ],
)
def test_documents_are_parted_by_blank_lines_or_stand_in_text(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.encode())
    assert list(Documents(tmp_path / name)) == ["One.\nStill one.", "Two."]


def test_a_directory_is_read_in_the_order_of_names(tmp_path):
    (tmp_path / "b").mkdir()
    pq.write_table(pa.table({"id": [1, 2], "text": ["P1", "P2"]}), tmp_path / "b" / "x.parquet")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"A\n"))
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b'{"text": "C"}\n'))
    (tmp_path / "README.md").write_text("not a document")
    assert list(Documents(tmp_path)) == ["A", "P1", "P2", "C"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "x.jsonl",
            b'{"text": "a"}\n{"text": 3}\n',
            r"x.jsonl:2: column 'text' must be text, seen 3",
        ),
        ("x.jsonl", b'{"text": "a"}\n{"txt": "b"}\n', r"x.jsonl:2: column 'text' must be text"),
        ("x.txt", b"\n\n", r"x.txt: 0 documents"),
        ("x.csv", b"id,text\n1,a\n", r"x.csv: its lines would .*\n  allowed: .*jsonl.*\n  fix: "),
        ("x.csv.gz", gzip.compress(b"id,text\n1,a\n", mtime=0), "x.csv.gz: its lines would"),
        ("x.JSONL", b'{"text": "a"}\n', "x.JSONL: its lines would be read as text"),
    ],
)
def test_faults_are_named(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=says):
        list(Documents(tmp_path / name))


def test_a_missing_column_is_named(tmp_path):
    pq.write_table(pa.table({"texts": ["a"]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="no column 'text'; found: texts; nearest"):
        list(Documents(tmp_path))


def test_a_place_without_files_is_named(tmp_path):
    with pytest.raises(DataError, match="no such file or directory"):
        list(Documents(tmp_path / "nowhere"))
    (tmp_path / "x.pdf").write_text("x")
    with pytest.raises(DataError, match=r"no corpus file below it; found x.pdf; wanted .parquet"):
        list(Documents(tmp_path))


def test_files_that_are_not_read_are_named(tmp_path, caplog):
    for name in ("a.txt", "b.jsonl.bz2", ".hidden"):
        (tmp_path / name).write_text("One.")
    assert list(Documents(tmp_path)) == ["One."]
    assert "1 file not read: b.jsonl.bz2" in caplog.text


def test_saved_hugging_face_data_sets_are_read(tmp_path):
    from datasets import Dataset

    Dataset.from_dict({"text": ["One.", "", "Two."], "id": [1, 2, 3]}).save_to_disk(tmp_path / "d")
    assert list(Documents(tmp_path / "d")) == ["One.", "Two."]


def test_a_document_without_end_goes_on_as_another(tmp_path, monkeypatch):
    monkeypatch.setattr("road_ray.data.corpus.documents._LONGEST_DOCUMENT", 10)
    (tmp_path / "x.txt").write_text("four\nfive\nsixes\nseven\n\nend\n")
    assert list(Documents(tmp_path / "x.txt")) == ["four\nfive\nsixes", "seven", "end"]
