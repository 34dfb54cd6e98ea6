"""QuAC's dialogs as published: spans, two further labels, and the history as a choice."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from road_ray.data.catalog import TASKS
from road_ray.data.config import SourceConfig
from road_ray.data.load_split import load_split, tasks_of
from road_ray.data.readers.quac import with_history
from road_ray.data.tokenizer import train_wordpiece
from tests.data.entries import read

read_quac = partial(read, layout="quac")
CONTEXT = "Ann was born in Rome. She sang. CANNOTANSWER"


def turn(number: int, question: str, text: str, yesno: str = "x", followup: str = "m") -> dict:
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


def test_spans_and_labels(root):
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
    def asked(number: int, *texts: str) -> dict:
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
        *([], [], ["Rome", "Ann"], ["Ann", "Rome"], ["Ann"]),
    ]
    assert [e.references for e in asked_all] == [(), (), ("Rome", "Ann"), ("Ann", "Rome"), ("Ann",)]
    assert asked_all[4].history[1::2] == ("Rome", "unknown", "unknown", "Ann")


def test_the_newest_exchange_of_the_history_comes_first(root):
    third = read_quac(root / "quac" / "val_v0.2.json")[2]
    assert with_history(third, 1).question == "when? did she sing? She sang."
    assert with_history(third, 5).question == (
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
