"""MRQA's JSONL as published: every found place is gold; what is wrong has file and line."""

from __future__ import annotations

import gzip
import json
from functools import partial

from road_ray.data.catalog import dataset
from road_ray.data.features.examples_and_features import Answer
from road_ray.data.readers.layouts import read_split
from road_ray.data.readers.mrqa import from_hub
from tests.data.entries import read as read_file

read_mrqa = partial(read_file, layout="mrqa")
CONTEXT = "[DOC] [TLE] Ann lives in Rome. Rome is old."
HEADER = {"header": {"dataset": "TriviaQA", "split": "train"}}


def row(*spans: tuple[int, int], qid: str = "q1", context: str = CONTEXT) -> dict:
    answers = [{"text": "Rome", "char_spans": [list(s)], "token_spans": [[5, 5]]} for s in spans]
    question = {"qid": qid, "question": "Where?", "answers": ["Rome"], "detected_answers": answers}
    return {"id": "", "context": context, "context_tokens": [], "qas": [question]}


def written(path, *rows):
    text = "".join(json.dumps(r) + "\n" for r in (HEADER, *rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_places_are_answers_and_their_last_character_is_counted(tmp_path):
    first, second = CONTEXT.index("Rome"), CONTEXT.rindex("Rome")
    rows = row((first, first + 3), (second, second + 3), (first, first + 3))
    written(tmp_path / "mrqa" / "train" / "TriviaQA-web.jsonl.gz", rows)
    (example,) = read_split(dataset("triviaqa"), tmp_path, "train")
    assert example.answers == (Answer("Rome", first), Answer("Rome", second))
    assert (example.id, example.question, example.context) == ("q1", "Where?", CONTEXT)


def test_the_hub_gives_the_same_question(tmp_path):
    first = CONTEXT.index("Rome")
    (read,) = read_mrqa(written(tmp_path / "x.jsonl.gz", row((first, first + 3))))
    spans = [{"start": [first], "end": [first + 3]}]
    hub = {"qid": "q1", "question": "Where?", "context": CONTEXT}
    again = from_hub(hub | {"detected_answers": {"text": ["Rome"], "char_spans": spans}}, "hub:1")
    assert (again["id"], again["answers"]) == ("q1", [{"text": "Rome", "answer_start": first}])
    assert read.answers == (Answer("Rome", first),)
