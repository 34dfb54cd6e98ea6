"""Questions with answers, without, misplaced and contradictory; other layouts than SQuAD's: MRQA's
JSONL, where every found place is gold; QuAC's dialogs, with further labels and history; QA-SRL's
token ranges and QA-ZRE's subjects.
"""

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
from road_ray.data.readers.squad import flat_rows
from road_ray.data.tokenizer import train_wordpiece
from road_ray.data.training_rows import read_unlabelled
from road_ray.evaluation.squad import evaluate
from road_ray.inference.input_rows import file_rows
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
    assert "dropped 1 answers that cannot be used, and 0 questions" in caplog.text
    assert "question 'q1' says is_impossible: true but has the answer 'Ulm'" in caplog.text


@pytest.mark.parametrize("start", [14, -1])
def test_a_misplaced_answer_moves_to_the_nearest_place_and_is_counted(file, start, caplog):
    (example,) = read_squad(write(file, question("q1", ("Ulm", start))))
    assert example.answers == (Answer("Ulm", 15),)
    assert f"moved 1 answers to where they stand: {file}: [0]: question 'q1'" in caplog.text


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
        *((CONTEXT, "The", start, moved) for start, moved in ((10, 0), (11, 20), (36, 20))),
        ("The party had art in it.", "art", 4, 14),  # not within "party"
        ("The party", "art", 5, 5),  # unless that is its offset
        ("The party. " + "x " * 40 + "art", "art", 4, None),  # 86 characters away
        ("\u6211\u5728\u5317\u4eac\u5e02\u4f4f", "\u5317\u4eac", 1, 2),  # no spaces between words
        ("the cafes and the cafe\u0301", "cafe", 0, None),  # a mark belongs to the letter before it
    ],
)
def test_an_answer_moves_to_the_nearest_whole_word(file, context, text, start, moved):
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


PASSAGE = "[DOC] [TLE] Ann lives in Rome. Rome is old."
HEADER = {"header": {"dataset": "TriviaQA", "split": "train"}}


def row(*spans, qid="q1", context=PASSAGE):
    answers = [{"text": "Rome", "char_spans": [list(s)], "token_spans": [[5, 5]]} for s in spans]
    question = {"qid": qid, "question": "Where?", "answers": ["Rome", "Rome (Lazio)"]}
    question |= {"detected_answers": answers}
    return {"id": "", "context": context, "context_tokens": [], "qas": [question]}


def test_places_are_answers_and_their_last_character_is_counted(tmp_path):
    first, second = PASSAGE.index("Rome"), PASSAGE.rindex("Rome")
    asked = row((first, first + 3), (second, second + 3), (first, first + 3))
    (tmp_path / "mrqa" / "train").mkdir(parents=True)
    write_rows(tmp_path / "mrqa" / "train" / "TriviaQA-web.jsonl.gz", [HEADER, asked])
    (example,) = read_split(dataset("triviaqa"), tmp_path, "train")
    assert example.answers == (Answer("Rome", first), Answer("Rome", second))
    assert (example.id, example.question, example.context) == ("q1", "Where?", PASSAGE)
    # As by MRQA's script also an answer that the passage does not have.
    assert evaluate([example], {"q1": "Lazio"})["f1"] > 66


def test_the_hub_gives_the_same_question():
    first = PASSAGE.index("Rome")
    spans = [{"start": [first], "end": [first + 3]}]
    hub = {"qid": "q1", "question": "Where?", "context": PASSAGE}
    hub |= {"detected_answers": {"text": ["Rome"], "char_spans": spans}}
    [(_, again)] = flat_rows([("hub:1", hub)])
    assert (again["id"], again["answers"]) == ("q1", [{"text": "Rome", "answer_start": first}])


read_quac = read_squad  # a file of questions says itself whose layout it has
DIALOG = "Ann was born in Rome. She sang. CANNOTANSWER"


def turn(number, question, text, yesno="x", followup="m"):
    answer = {"text": text, "answer_start": DIALOG.index(text)}
    fields = {"id": f"C_q#{number}", "question": question, "yesno": yesno, "followup": followup}
    return fields | {"answers": [answer], "orig_answer": answer}


@pytest.fixture
def root(tmp_path):
    turns = [
        turn(0, "where was she born?", "Rome"),
        turn(1, "did she sing?", "She sang.", "y", "y"),
        turn(2, "when?", "CANNOTANSWER", "x", "n"),
    ]
    (tmp_path / "quac").mkdir()
    for name in ("train_v0.2.json", "val_v0.2.json"):
        write(tmp_path / "quac" / name, *turns, context=DIALOG)
    return tmp_path


def test_questions_that_lack_answers_or_a_label_are_no_dialog_and_are_read_as_any_others(tmp_path):
    of_quac = turn(0, "who?", "Rome")
    asked = {name: of_quac[name] for name in ("id", "question", "yesno", "followup")}
    answered = {"id": "1", "question": "who?", "yesno": "yes", "answers": of_quac["answers"]}
    path = write(tmp_path / "x.json", asked, answered, context=DIALOG)
    rows = [row for _, row in file_rows(str(path))]
    assert [row["question"] for row in rows] == ["who?", "who?"]
    [first, _] = read_unlabelled(path, dataset("quac"), TASKS["mrc"])
    assert not first.labelled
    assert read_quac(path)[1].answers == (Answer("Rome", 16),)


def test_most_annotators_decide_whether_there_is_an_answer(tmp_path):
    def asked(number, *texts):
        answers = [{"text": text, "answer_start": DIALOG.index(text)} for text in texts]
        return turn(number, "who?", texts[0]) | {"answers": answers}

    none = "CANNOTANSWER"
    qas = [
        asked(0, "Rome", none, none, none),
        asked(1, none, "Rome"),
        asked(2, none, "Rome", "Ann"),
        asked(3, "Ann", none, "Rome"),
        asked(4, "Ann"),
    ]
    asked_all = read_quac(write(tmp_path / "x.json", *qas, context=DIALOG))
    assert [[a.text for a in e.answers] for e in asked_all] == [
        *([], [], ["Rome", "Ann"], ["Ann", "Rome"], ["Ann"])
    ]
    assert [e.references for e in asked_all] == [(), (), ("Rome", "Ann"), ("Ann", "Rome"), ("Ann",)]


def test_rows_have_gold_for_three_heads(root):
    tokenizer = train_wordpiece([DIALOG * 20], vocab_size=80)
    source = SourceConfig(root=str(root))
    split = load_split("quac", "dev", source, tokenizer)
    assert [task.name for task in tasks_of("quac", source)] == [
        "mrc", "quac_yes_no", "quac_continue",
    ]  # fmt: skip
    assert {example.context for example in split.examples} == {"Ann was born in Rome. She sang."}
    gold = split.features.gold
    assert len(split.features) == 3
    assert gold["labels/quac_yes_no"].tolist() == [2, 0, 2]
    assert gold["labels/quac_continue"].tolist() == [1, 0, 2]
    assert TASKS["quac_continue"].kind.labels == ("follow up", "maybe", "stop")
    # A window that does not hold the answer cannot tell.
    narrow = source.model_copy(update={"max_length_tokens": 15, "stride_tokens": 2})
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
