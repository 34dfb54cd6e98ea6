"""QA-SRL's two files: token ranges become characters; what does not fit has file and line."""

from __future__ import annotations

import pytest

from road_ray.data.catalog import dataset
from road_ray.data.features.examples_and_features import Answer
from road_ray.data.readers.layouts import read_split
from road_ray.errors import DataError
from tests.data.entries import read


def files(folder, *rows: str):
    (folder / "dev.x.full.csv").write_text(
        'qasrl_id,tokens,sentence\ns:1,"Ann , who sang , left .",Ann left.\n'
    )
    path = folder / "dev.x.gold.csv"
    path.write_text("qasrl_id,verb_idx,question,answer_range,answer\n" + "\n".join(rows) + "\n")
    return path


def test_ranges_of_tokens_become_answers(tmp_path):
    path = files(tmp_path, "s:1,5,Who left?,0:1~!~2:4,x", "s:1,5,Why?,,")
    first, second = read(path, "qasrl")
    assert first.context == "Ann , who sang , left ."
    assert first.answers == (Answer("Ann", 0), Answer("who sang", 6))
    assert second.answers == ()
    assert (first.id, first.where) == ("s:1:5:0", f"{path}:2")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("s:1,5,Who?,3:9,x", "gold.csv:2: answer_range '3:9', the sentence has 7 tokens"),
        ("s:1,5,Who?,3:3,x", "answer_range '3:3'"),
        ("s:2,5,Who?,0:1,x", "gold.csv:2: qasrl_id 's:2' is not in dev.x.full.csv"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        read(files(tmp_path, row), "qasrl")


def test_sentences_without_their_columns_and_long_numbers_are_told(tmp_path):
    path = files(tmp_path, f"s:1,5,Who?,0:{'9' * 5000},x")
    with pytest.raises(DataError, match=r"gold.csv:2: answer_range '0:999") as caught:
        read(path, "qasrl")
    assert len(str(caught.value)) < 400
    (tmp_path / "dev.x.full.csv").write_text("id,tokens\ns:1,a\n")
    with pytest.raises(DataError, match=r"gold.csv: not in the layout qasrl: KeyError: 'qasrl_id'"):
        read(path, "qasrl")


def test_the_sentences_must_be_beside(tmp_path):
    path = files(tmp_path, "s:1,5,Who?,0:1,x")
    (tmp_path / "dev.x.full.csv").unlink()
    with pytest.raises(DataError, match=r"no file dev.x.full.csv with its sentences beside it"):
        read(path, "qasrl")


def test_the_real_questions_have_the_answers_that_the_file_writes_out(real_data):
    import csv

    path = real_data / "qasrl" / "dev.wikinews.gold.csv"
    with path.open(encoding="utf-8", newline="") as file:
        written = [row["answer"].split("~!~") for row in csv.DictReader(file)]
    examples = read_split(dataset("qasrl"), real_data, "dev")[: len(written)]
    for example, texts in zip(examples, written, strict=True):
        assert [answer.text for answer in example.answers] == texts
