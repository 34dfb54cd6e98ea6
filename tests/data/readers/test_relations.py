"""Relations as questions: token ranges of QA-SRL become characters; subjects of QA-ZRE."""

from __future__ import annotations

import csv

from road_ray.data.catalog import dataset
from road_ray.data.features.examples_and_features import Answer
from road_ray.data.readers.layouts import read_split
from tests.data.entries import read


def test_ranges_of_tokens_become_answers(tmp_path):
    (tmp_path / "dev.x.full.csv").write_text('qasrl_id,tokens\ns:1,"Ann , who sang , left ."\n')
    path = tmp_path / "dev.x.gold.csv"
    header = "qasrl_id,verb_idx,question,answer_range,answer\n"
    path.write_text(f"{header}s:1,5,Who left?,0:1~!~2:4,x\ns:1,5,Why?,,\n")
    first, second = read(path, "qasrl")
    assert first.context == "Ann , who sang , left ."
    assert first.answers == (Answer("Ann", 0), Answer("who sang", 6))
    assert second.answers == ()
    assert (first.id, first.where) == ("s:1:5:0", f"{path}:2")


def test_the_real_questions_have_the_answers_that_the_file_writes_out(real_data):
    path = real_data / "qasrl" / "dev.wikinews.gold.csv"
    with path.open(encoding="utf-8", newline="") as file:
        written = [row["answer"].split("~!~") for row in csv.DictReader(file)]
    examples = read_split(dataset("qasrl"), real_data, "dev")[: len(written)]
    for example, texts in zip(examples, written, strict=True):
        assert [answer.text for answer in example.answers] == texts


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
