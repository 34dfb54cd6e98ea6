"""Rows that a layout cannot hold: each is refused with its file, and its line or question."""

import json

import pytest

from road_ray.data.task_and_dataset import Columns
from road_ray.errors import DataError
from tests.data.entries import read

PAIR = Columns(("a", "b"), label="gold")
ID = Columns(("a",), id="id")
CHOICES = Columns(("q", "a", "b"), label="gold")
WITHIN = Columns(("question[stem]", "question[choices][0]", "question[choices][1]"), label="key")
CONLL = Columns((0,), label=-1)
NONE = Columns(())
MARKS = Columns(("a",), label=("x", "y"))
ROW = {"a": "x", "b": "y", "gold": 1}


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def squad(*questions, context="in Ulm. The bar."):
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": questions}]}]})


def question(id, text=None, start=3, **more):
    answers = [] if text is None else [{"text": text, "answer_start": start}]
    return {"id": id, "question": "Where?", "answers": answers} | more


def choice(key, texts=("bank", "mall")):
    return {"question": {"stem": "Where?", "choices": texts}, "key": key}


def turn(yesno="x"):
    answer = {"text": "Ulm", "answer_start": 3}
    of_turn = {"answers": [answer], "orig_answer": answer, "yesno": yesno, "followup": "m"}
    return question("C_q#0") | of_turn


def mrqa(*spans, **more):
    found = [{"char_spans": [span]} for span in spans]
    asked = {"qid": "q1", "question": "Where?", "detected_answers": found}
    return {"context": "Ann lives in Rome.", "qas": [asked]} | more


BAD = [
    # layout, columns, name, content, message
    ("glue_tsv", PAIR, "x.tsv", "", "x.tsv: 0 usable rows"),
    ("glue_tsv", PAIR, "x.tsv", "a\tb\tgold\n", "x.tsv: 0 usable rows"),
    ("glue_tsv", PAIR, "x.tsv", "a\tb\tgold\nx\ty\t-\n", "x.tsv: 0 usable rows of 1"),
    ("glue_tsv", PAIR, "x.tsv", "a\tb\nx\ty\n", "x.tsv:2: no column 'gold'; found: a, b"),
    ("glue_tsv", PAIR, "x.tsv", "a\tbe\tgold\nx\ty\t1\n", "x.tsv:2: no column 'b'.*'be'"),
    ("glue_tsv", PAIR, "x.tsv", "a\tb\tgold\tb\n", "x.tsv:1: the header names 'b' twice"),
    ("glue_tsv", PAIR, "x.tsv", "a\tb\tgold\nx\ty\t1\nx\ty\n", "1 of 2 rows.*:3: 2 columns"),
    ("glue_tsv", ID, "x.tsv", "id\ta\n" + "0\tx\n1\tx\n" * 2, "2 examples repeat.*'0' at .*:4"),
    ("table", PAIR, "x.jsonl", lines(ROW, {"a": "x"}), "x.jsonl:2: no column 'b'; found"),
    ("table", PAIR, "x.jsonl", lines(ROW, ROW | {"b": 4}), ":2: .*'b' must be text, seen 4"),
    ("table", PAIR, "x.jsonl", lines(ROW | {"b": "\ud800"}), r":1: .*lone surrogate U\+D800"),
    ("table", MARKS, "x.csv", "a,x,y\nt,0,1\nt,1,2\n", "x.csv:3: column 'y' = '2'; allowed: 0 or"),
    ("table", MARKS, "x.csv", "a,x,y\nt,0,1\nt,1,\n", "x.csv:3: column 'y' = ''; allowed: 0 or 1"),
    ("table", MARKS, "x.csv", "a,x\nt,0\n", "x.csv:2: no column 'y'; found: a, x"),
    ("adv_glue", ID, "x.json", '{"rte": []}', "no list of rows 'id'; found: rte"),
    ("adv_glue", ID, "x.json", '{"id": [1]}', r"x.json: id\[0\]: not in the layout"),
    ("adv_glue", ID, "x.json", '{"id": [{"b": "x"}]}', r"x.json: id\[0\]: no column 'a'"),
    ("squad_json", NONE, "x.json", '{"data": []}', "0 usable rows"),
    ("squad_json", NONE, "x.json", '{"rows": []}', "not in the layout squad_json"),
    ("squad_json", NONE, "x.json", '[{"context": "x"}]', "squad_json: KeyError: 'question'"),
    ("squad_json", NONE, "x.json", squad(question("q", "Rome")), "question 'q' answer_start=3: "),
    ("squad_json", NONE, "x.json", squad(question("q", "Ulm", 99)), "'Ulm' is not there"),
    ("squad_json", NONE, "x.json", squad(question("q", "Ulm", None)), "answer_start=None"),
    ("squad_json", NONE, "x.json", squad(question("q", "")), "1 answers cannot be used"),
    ("squad_json", NONE, "x.json", squad(question("q", 7)), "1 answers cannot be used"),
    ("squad_json", NONE, "x.json", squad(question("q", is_impossible=False)), "has no answers"),
    ("squad_json", NONE, "x.json", squad(question("q"), context=1), "'q': .*must be text, seen 1"),
    ("squad_json", NONE, "x.csv", "context,question,answers\nUlm,?,Ulm\n", ":2: .*'answers' is"),
    ("quac", NONE, "x.json", squad(turn("perhaps")), "SQuAD, QuAC or MRQA: KeyError.'perhaps'"),
    ("quac", NONE, "x.json", squad(turn(), context=1), "SQuAD, QuAC or MRQA: AttributeError"),
    ("quac", NONE, "x.json", squad({"id": "q"}), "'q': not in the layout quac: KeyError: 'questi"),
    ("mrqa", NONE, "x.jsonl", lines(mrqa((3, 999))), ":1: question 'q1' .* characters 3 to 999"),
    ("mrqa", NONE, "x.jsonl", lines(mrqa(), {"context": "x"}), ":2: not in the layout mrqa: Key"),
    ("mrqa", NONE, "x.jsonl", lines(mrqa("")), ":1: not in the layout of SQuAD, QuAC or MRQA: V"),
    ("mrqa", NONE, "x.jsonl", lines({"header": {}}), "0 usable rows"),
    ("zre", NONE, "x", "a\tb\tc\n", "x:1: 3 columns, at least 4 wanted"),
    ("zre", NONE, "x", "r\tq\ts\tthe text\tother\n", "x:1 answer_start=-1: 'other' is not there"),
    ("choices", WITHIN, "x.jsonl", lines(choice("A", ("bank", ""))), ":1: choice 2 of 2 is"),
    ("choices", WITHIN, "x.jsonl", lines(choice("D")), ":1: the answer is 'D', there are 2"),
    ("choices", WITHIN, "x.jsonl", lines({"question": []}), ":1: not in the layout"),
    ("choices", WITHIN, "x.jsonl", lines({"id": "7"}), ":1: no column 'question'; found"),
    ("choices", Columns(("0", "1")), "x.csv", "q,a\nwho,me\n", "x.csv:2: no column '0'; found"),
    ("choices", CHOICES, "x.csv", "q,a,b,gold\nwho,me,you,-1\n", "x.csv:2: the answer is '-1'"),
    ("choices", CHOICES, "x.csv", "q,a,b,lable\nwho,me,you,0\n", "0 usable rows of 1"),
    ("conll", CONLL, "x", "EU O\nrejects\n", "x:2: 1 columns, word and tag are numbers 0 and -1"),
    ("conll", CONLL, "x", "EU\tO\n\tO\n", "x:2: 2 columns.* an empty line stands between"),
    ("conll", CONLL, "x", "EU O\nrejects VBZ\n", "x:1 word 2: tag 'VBZ'\n  allowed: O, B-TYPE"),
    ("conll", CONLL, "x", "\n\n", "0 usable rows"),
    ("conll", NONE, "x.jsonl", lines({"tokens": ["a"]}), ":1: no column 'ner_tags'; found: tokens"),
    ("conll", NONE, "x.jsonl", lines({"tokens": ["a"], "ner_tags": []}), ":1: 1 words and 0 tags"),
    ("conll", NONE, "x.jsonl", lines({"tokens": "a", "ner_tags": "O"}), ":1: .* must be lists"),
]


@pytest.mark.parametrize(("layout", "columns", "name", "content", "message"), BAD)
def test_it_is_refused_with_its_place(tmp_path, layout, columns, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=f"(?s){name}.*{message}|{message}") as caught:
        read(tmp_path / name, layout, columns)
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("s:1,5,Who?,3:9,x", "gold.csv:2: answer_range '3:9', the sentence has 7 tokens"),
        ("s:1,5,Who?,3:3,x", "answer_range '3:3'"),
        (f"s:1,5,Who?,0:{'9' * 5000},x", "gold.csv:2: answer_range '0:999"),
        ("s:2,5,Who?,0:1,x", "gold.csv:2: qasrl_id 's:2' is not in dev.x.full.csv"),
        (None, "no file dev.x.full.csv with its sentences beside it"),
    ],
)
def test_ranges_of_qasrl_are_refused_with_their_line(tmp_path, row, message):
    header = "qasrl_id,verb_idx,question,answer_range,answer\n"
    (tmp_path / "dev.x.gold.csv").write_text(f"{header}{row}\n")
    if row:
        (tmp_path / "dev.x.full.csv").write_text('qasrl_id,tokens\ns:1,"Ann , who sang , left ."\n')
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path / "dev.x.gold.csv", "qasrl")
    assert len(str(caught.value)) < 600


def test_five_faults_are_listed(tmp_path):
    (tmp_path / "x.json").write_text(squad(*(question(f"q{n}", "Rome") for n in range(8))))
    with pytest.raises(DataError, match=r"8 answers cannot be used(?s:.*)and 3 more") as raised:
        read(tmp_path / "x.json", "squad_json")
    assert "'q5'" not in str(raised.value)
