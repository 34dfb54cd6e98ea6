"""CommonsenseQA, SWAG, HellaSwag and one's own table of choices; what is wrong has a line."""

from __future__ import annotations

from road_ray.data.readers.choices import choice_questions
from road_ray.data.readers.tables import Table
from road_ray.data.task_and_dataset import Columns
from tests.data.entries import read as read_choices
from tests.row_files import write_rows

NONE = Columns(())


def test_commonsenseqa_from_the_file_and_from_the_hub(tmp_path):
    choices = [{"label": "A", "text": "bank"}, {"label": "B", "text": "mall"}]
    question = {"stem": "Where?", "choices": choices}
    row = {"id": "q1", "question": question, "answerKey": "B"}
    path = write_rows(tmp_path / "x.jsonl", [row])
    (read,) = read_choices(path, "commonsenseqa", Columns((), id="id"))
    assert (read.id, read.question, read.choices) == ("q1", "Where?", ("bank", "mall"))
    assert (read.answer, read.where) == (1, f"{path}:1")
    hub = {"id": "q1", "question": "Where?", "answerKey": "B"}
    hub |= {"choices": {"label": ["A", "B"], "text": ["bank", "mall"]}}
    table = Table("hub", [(f"{path}:1", hub)], Columns((), id="id"))
    (again,) = choice_questions("commonsenseqa", table)
    assert again == read


def test_swag_as_published(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text(
        ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,"
        'label\n0,v,3,x,"A man, old.",He,gold,runs.,eats.,"sits, and waits.",flies.,2\n'
    )
    (read,) = read_choices(path, "swag", NONE)
    assert read.question == "A man, old."
    assert read.choices == ("He runs.", "He eats.", "He sits, and waits.", "He flies.")
    assert read.answer == 2


def test_hellaswag_as_published(tmp_path):
    row = {"ind": 4, "ctx_a": "A boat.", "ctx_b": "it", "endings": ["sinks", "sails", "a", "b"]}
    rows = [row | {"label": 1}, row | {"ctx_b": "", "label": 0}]
    path = write_rows(tmp_path / "x.jsonl", rows)
    first, second = read_choices(path, "hellaswag", NONE)
    assert (first.choices[1], first.answer, second.choices[0]) == ("it sails", 1, "sinks")


def test_ones_own_table_names_question_and_choices(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("q,a,b,gold\nwho,me,you,B\nwhat,this,that,0\n")
    read = read_choices(path, "choices", Columns(("q", "a", "b"), label="gold"))
    assert [(e.question, e.choices, e.answer) for e in read] == [
        ("who", ("me", "you"), 1),
        ("what", ("this", "that"), 0),
    ]


def test_questions_without_an_answer_are_dropped_and_counted_where_labels_are_needed(
    tmp_path, caplog
):
    path = tmp_path / "x.csv"
    path.write_text("q,a,b,label\nOne?,x,y,0\nTwo?,x,y,\nThree?,x,y,B\n")
    columns = Columns(("q", "a", "b"), label="label")
    read = read_choices(path, "choices", columns)
    assert [(e.question, e.answer) for e in read] == [("One?", 0), ("Three?", 1)]
    assert "dropped 1 rows without a label" in caplog.text
    assert [e.answer for e in read_choices(path, "choices", columns, "test")] == [0, None, 1]
    path.write_text("q,a,b,label\nOne?,x,y,-1\n")
    assert read_choices(path, "choices", columns, "test")[0].answer is None
