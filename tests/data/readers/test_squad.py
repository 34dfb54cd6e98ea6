"""Questions with answers, without, misplaced, contradictory and repeated; damaged files."""

from __future__ import annotations

import json
from functools import partial

import pytest

from road_ray.data.examples import Answer
from tests.data.entries import read
from tests.row_files import write_rows

read_squad = partial(read, layout="squad_json")
CONTEXT = "The café is in Ulm. The bar is in Bonn."


def question(id, *answers, **more):
    golds = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": id, "question": "Where?", "answers": golds, **more}


def write(path, *questions, context=CONTEXT):
    layout = {"data": [{"title": "t", "paragraphs": [{"context": context, "qas": questions}]}]}
    path.write_text(json.dumps(layout))
    return path


@pytest.fixture
def file(tmp_path):
    return tmp_path / "dev.json"


def test_answers_stand_where_they_say(file):
    (example,) = read_squad(write(file, question("q1", ("Ulm", 15), ("in Ulm", 12))))
    assert example.id == "q1"
    assert (example.question, example.context) == ("Where?", CONTEXT)
    assert example.answers == (Answer("Ulm", 15), Answer("in Ulm", 12))
    assert example.where == f"{file}: question 'q1'"


def test_no_answers_means_unanswerable_and_plausible_answers_are_not_gold(file):
    plausible = [{"text": "Ulm", "answer_start": 15}]
    write(
        file,
        question("v2", is_impossible=True, plausible_answers=plausible),
        question("no flag"),
        {"id": "hidden", "question": "Where?"},
    )
    assert [e.answers for e in read_squad(file)] == [(), (), ()]


def test_answers_of_an_impossible_question_are_dropped_and_counted(file, caplog):
    (example,) = read_squad(write(file, question("q1", ("Ulm", 15), is_impossible=True)))
    assert example.answers == ()
    assert "dropped the answers of 1 questions with is_impossible" in caplog.text


@pytest.mark.parametrize("start", [14, -1])
def test_a_misplaced_answer_moves_to_the_nearest_place_and_is_counted(file, start, caplog):
    (example,) = read_squad(write(file, question("q1", ("Ulm", start))))
    assert example.answers == (Answer("Ulm", 15),)
    assert f"moved 1 answers to where they stand: {file}: question 'q1'" in caplog.text


@pytest.mark.parametrize(("start", "moved"), [(10, 0), (11, 20), (36, 20)])
def test_the_nearest_of_several_places_is_taken(file, start, moved):
    assert read_squad(write(file, question("q1", ("The", start))))[0].answers[0].start == moved


FLAT = [
    {"id": id, "context": CONTEXT, "question": "Where?", "answers": answers}
    for id, answers in (
        ("q1", {"text": ["Ulm"], "answer_start": [15]}),
        ("q2", {"text": [], "answer_start": []}),
    )
]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".json", "data"])
def test_flat_rows_are_the_questions_of_squad_json(tmp_path, file, suffix):
    expected = read_squad(write(file, question("q1", ("Ulm", 15)), question("q2")))
    if suffix == "data":  # an array below the key of SQuAD's own layout
        place = tmp_path / "rows.json"
        place.write_text(json.dumps({"data": FLAT}))
    else:
        place = write_rows(tmp_path / f"rows{suffix}", FLAT)
    seen = [(q.id, q.question, q.context, q.answers) for q in read_squad(place)]
    assert seen == [(q.id, q.question, q.context, q.answers) for q in expected]


@pytest.mark.parametrize(
    ("context", "text", "start", "moved"),
    [
        ("The party had art in it.", "art", 4, 14),  # not within "party"
        ("The party", "art", 5, 5),  # unless that is its offset
        ("The party. " + "x " * 40 + "art", "art", 4, None),  # 86 characters away
        ("\u6211\u5728\u5317\u4eac\u5e02\u4f4f", "\u5317\u4eac", 1, 2),  # no spaces between words
        ("the cafes and the cafe\u0301", "cafe", 0, None),  # a mark belongs to the letter before it
    ],
)
def test_an_answer_moves_to_a_whole_word(file, context, text, start, moved):
    padding = [question(f"ok{n}") for n in range(3)]
    examples = read_squad(write(file, question("q", (text, start)), *padding, context=context))
    answers = [e.answers for e in examples if e.id == "q"]
    assert answers == ([] if moved is None else [(Answer(text, moved),)])


def test_questions_without_a_usable_answer_are_dropped_and_counted(file, caplog):
    good = [question(f"q{n}", ("Ulm", 15)) for n in range(3)]
    bad = [question("b1", ("Rome", 3)), question("b2", ("Rome", 3), ("Ulm", 15))]
    examples = read_squad(write(file, *good, *bad))
    assert [e.id for e in examples] == ["q0", "q1", "q2", "b2"]
    assert examples[-1].answers == (Answer("Ulm", 15),)
    assert "dropped 2 answers that cannot be used, and 1 questions" in caplog.text
    assert "question 'b1' answer_start=3: 'Rome' is not there" in caplog.text


@pytest.mark.parametrize("start", [-1, 0, None])
def test_an_empty_answer_is_no_answer(file, tmp_path, start):
    empty = [{"text": "", "answer_start": start}]
    assert read_squad(write(file, question("q") | {"answers": empty}))[0].answers == ()
    row = {"id": "q", "question": "?", "context": "c"}
    flat = tmp_path / "rows.jsonl"
    flat.write_text(json.dumps(row | {"answers": {"text": [""], "answer_start": [start]}}))
    assert read_squad(flat)[0].answers == ()


@pytest.mark.parametrize(
    "cell",
    [
        '{"text": ["Ulm"], "answer_start": [15]}',
        "{'text': array(['Ulm'], dtype=object), 'answer_start': array([15], dtype=int32)}",
        "[{'text': 'Ulm', 'answer_start': 15}]",
        "{'text': 'Ulm', 'answer_start': 15}",
    ],
)
def test_flat_rows_of_a_csv_have_answers_as_text(tmp_path, cell):
    path = tmp_path / "rows.csv"
    row = {"id": "q", "question": "Where?", "context": CONTEXT, "answers": cell}
    write_rows(path, [row, row | {"id": "none", "answers": ""}])
    assert [e.answers for e in read_squad(path)] == [(Answer("Ulm", 15),), ()]
