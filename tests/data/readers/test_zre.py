"""QA-ZRE's published rows; the same converted to SQuAD."""

from __future__ import annotations

import pytest

from road_ray.data.catalog import dataset
from road_ray.data.features.examples_and_features import Answer
from road_ray.data.readers.layouts import read_split
from road_ray.errors import DataError
from tests.data.entries import read


def test_the_subject_stands_for_xxx_and_no_answer_is_no_answer(tmp_path):
    path = tmp_path / "qa_zre" / "relation_splits" / "dev.0"
    path.parent.mkdir(parents=True)
    path.write_text(
        "born\tWhere was XXX born?\tAnn\tAnn of Rome left Rome.\tRome\n"
        "born\tWhere was XXX born?\tBob\tBob sang.\n"
    )
    first, second = read_split(dataset("qazre"), tmp_path, "dev")
    assert (first.question, first.answers) == ("Where was Ann born?", (Answer("Rome", 7),))
    assert (second.question, second.answers) == ("Where was Bob born?", ())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a\tb\tc", "x:1: 3 columns, at least 4 wanted"),
        ("r\tq\ts\tthe text\tother", "x:1 answer_start=-1: 'other' expected"),
        ("", "0 usable rows"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, row, message):
    path = tmp_path / "x"
    path.write_text(row + "\n")
    with pytest.raises(DataError, match=message):
        read(path, "zre")
