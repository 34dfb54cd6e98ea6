"""Other layouts than SQuAD's: MRQA's JSONL, where every found place is gold; QuAC's dialogs, with
further labels and history; QA-SRL's token ranges and QA-ZRE's subjects.
"""

from __future__ import annotations

import csv
import json
from functools import partial

import numpy as np
import pytest

from road_ray.data.catalog import TASKS, dataset
from road_ray.data.config import SourceConfig
from road_ray.data.examples import Answer
from road_ray.data.load_split import load_split, tasks_of
from road_ray.data.readers.layouts import read_split
from road_ray.data.readers.squad import mrqa_from_hub
from road_ray.data.tokenizer import train_wordpiece
from tests.data.entries import read
from tests.row_files import write_rows

PASSAGE = "[DOC] [TLE] Ann lives in Rome. Rome is old."
HEADER = {"header": {"dataset": "TriviaQA", "split": "train"}}


def row(*spans, qid="q1", context=PASSAGE):
    answers = [{"text": "Rome", "char_spans": [list(s)], "token_spans": [[5, 5]]} for s in spans]
    question = {"qid": qid, "question": "Where?", "answers": ["Rome"], "detected_answers": answers}
    return {"id": "", "context": context, "context_tokens": [], "qas": [question]}


def test_places_are_answers_and_their_last_character_is_counted(tmp_path):
    first, second = PASSAGE.index("Rome"), PASSAGE.rindex("Rome")
    asked = row((first, first + 3), (second, second + 3), (first, first + 3))
    (tmp_path / "mrqa" / "train").mkdir(parents=True)
    write_rows(tmp_path / "mrqa" / "train" / "TriviaQA-web.jsonl.gz", [HEADER, asked])
    (example,) = read_split(dataset("triviaqa"), tmp_path, "train")
    assert example.answers == (Answer("Rome", first), Answer("Rome", second))
    assert (example.id, example.question, example.context) == ("q1", "Where?", PASSAGE)


def test_the_hub_gives_the_same_question(tmp_path):
    first = PASSAGE.index("Rome")
    (example,) = read(write_rows(tmp_path / "x.jsonl", [row((first, first + 3))]), "mrqa")
    spans = [{"start": [first], "end": [first + 3]}]
    hub = {"qid": "q1", "question": "Where?", "context": PASSAGE}
    again = mrqa_from_hub(
        hub | {"detected_answers": {"text": ["Rome"], "char_spans": spans}}, "hub:1"
    )
    assert (again["id"], again["answers"]) == ("q1", [{"text": "Rome", "answer_start": first}])
    assert example.answers == (Answer("Rome", first),)


read_quac = partial(read, layout="quac")
CONTEXT = "Ann was born in Rome. She sang. CANNOTANSWER"


def turn(number, question, text, yesno="x", followup="m"):
    answer = {"text": text, "answer_start": CONTEXT.index(text)}
    fields = {"id": f"C_q#{number}", "question": question, "yesno": yesno, "followup": followup}
    return fields | {"answers": [answer], "orig_answer": answer}


@pytest.fixture
def root(tmp_path):
    turns = [
        turn(0, "where was she born?", "Rome"),
        turn(1, "did she sing?", "She sang.", "y", "y"),
        turn(2, "when?", "CANNOTANSWER", "x", "n"),
    ]
    paragraph = {"context": CONTEXT, "id": "C", "qas": turns}
    content = {"data": [{"title": "Ann", "paragraphs": [paragraph]}]}
    (tmp_path / "quac").mkdir()
    for name in ("train_v0.2.json", "val_v0.2.json"):
        (tmp_path / "quac" / name).write_text(json.dumps(content))
    return tmp_path


def test_dialogs_have_spans_and_labels(root):
    first, second, third = read_quac(root / "quac" / "val_v0.2.json")
    assert [a.text for a in first.answers] == ["Rome"]
    assert first.context == "Ann was born in Rome. She sang."
    assert third.answers == ()
    assert [dict(e.labels) for e in (first, second, third)] == [
        {"quac_yes_no": "neither", "quac_continue": "maybe"},
        {"quac_yes_no": "yes", "quac_continue": "follow up"},
        {"quac_yes_no": "neither", "quac_continue": "stop"},
    ]


def test_most_annotators_decide_whether_there_is_an_answer(tmp_path):
    def asked(number, *texts):
        answers = [{"text": text, "answer_start": CONTEXT.index(text)} for text in texts]
        return turn(number, "who?", texts[0]) | {"answers": answers}

    none = "CANNOTANSWER"
    qas = [
        asked(0, "Rome", none, none, none),
        asked(1, none, "Rome"),
        asked(2, none, "Rome", "Ann"),
        asked(3, "Ann", none, "Rome"),
        asked(4, "Ann"),
    ]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": CONTEXT, "qas": qas}]}]}))
    asked_all = read_quac(path)
    assert [[a.text for a in e.answers] for e in asked_all] == [
        *([], [], ["Rome", "Ann"], ["Ann", "Rome"], ["Ann"])
    ]
    assert [e.references for e in asked_all] == [(), (), ("Rome", "Ann"), ("Ann", "Rome"), ("Ann",)]
    assert asked_all[4].history[1::2] == ("Rome", "unknown", "unknown", "Ann")


def test_the_newest_exchange_of_the_history_comes_first(root):
    third = read_quac(root / "quac" / "val_v0.2.json")[2]
    assert third.with_history(1).question == "when? did she sing? She sang."
    assert third.with_history(5).question == (
        "when? did she sing? She sang. where was she born? Rome"
    )


def test_rows_have_gold_for_three_heads(root):
    tokenizer = train_wordpiece([CONTEXT * 20], vocab_size=80)
    source = SourceConfig(root=str(root), history_turns=1)
    split = load_split("quac", "dev", source, tokenizer)
    assert [task.name for task in tasks_of("quac", source)] == [
        "mrc", "quac_yes_no", "quac_continue",
    ]  # fmt: skip
    gold = split.features.gold
    assert len(split.features) == 3
    assert gold["labels/quac_yes_no"].tolist() == [2, 0, 2]
    assert gold["labels/quac_continue"].tolist() == [1, 0, 2]
    assert TASKS["quac_continue"].kind.labels == ("follow up", "maybe", "stop")
    # A window that does not hold the answer cannot tell.
    narrow = source.model_copy(
        update={"max_length_tokens": 15, "stride_tokens": 2, "max_question_tokens": 8}
    )
    rows = load_split("quac", "dev", narrow, tokenizer).features
    beside = (rows.gold["start_positions"] == 0) & (rows.example < 2)
    assert len(rows) > 3
    assert beside.any()
    assert (rows.gold["labels/quac_yes_no"][beside] == -100).all()
    assert (np.delete(rows.gold["labels/quac_yes_no"], np.flatnonzero(beside)) >= 0).all()


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
