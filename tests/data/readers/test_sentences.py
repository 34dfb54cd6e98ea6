"""Tables of sentences and of choices: what is read, what is dropped, every fault with its line."""

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import partial

import pytest

from road_ray.data.catalog import dataset, task
from road_ray.data.readers.layouts import read_split, table_examples
from road_ray.data.task_and_dataset import Columns, label_text
from tests.data.entries import read
from tests.row_files import write_rows

PAIR = Columns(("a", "b"), label="gold")
read_glue = partial(read, layout="glue_tsv", columns=PAIR)
read_table = partial(read, layout="table", columns=PAIR)


@pytest.fixture
def tsv(tmp_path):
    return tmp_path / "train.tsv"


def test_columns_are_found_by_number_without_a_header(tsv):
    tsv.write_text("gj04\t1\t\tOne more.\nks08\t0\t*\tThe boat.\n")
    rows = read_glue(tsv, columns=Columns((3,), label=1))
    assert [(r.id, r.texts, r.label) for r in rows] == [
        ("0", ("One more.",), "1"),
        ("1", ("The boat.",), "0"),
    ]


def test_quotes_are_letters_and_unusual_line_separators_do_no_harm(tsv):
    tsv.write_text('\ufeffa\tb\tgold\r\n" He said\tit is "so\t1\r\nx\u2028y\tz\x85\t0\r\n\r\n')
    assert [r.texts for r in read_glue(tsv)] == [('" He said', 'it is "so'), ("x\u2028y", "z\x85")]


def test_a_test_split_needs_no_labels(tsv):
    tsv.write_text("a\tb\nx\ty\n")
    assert read_glue(tsv, split="test")[0].label is None


def test_one_broken_row_in_a_thousand_is_dropped_as_in_official_qqp(tsv, caplog):
    tsv.write_text("a\tb\tgold\n" + "x\ty\t1\n" * 1000 + "broken\n")
    assert len(read_glue(tsv)) == 1000
    assert f"dropped 1 broken rows: {tsv}:1002" in caplog.text


@pytest.mark.parametrize("kind", ["parquet", "saved"])
def test_class_minus_one_of_a_local_copy_is_no_label(tmp_path, caplog, kind):
    import datasets

    path = tmp_path / "x.parquet" if kind == "parquet" else tmp_path / "x"
    made = datasets.Dataset.from_dict({"a": ["x", "y"], "b": ["z", "z"], "gold": [-1, 1]})
    made = made.cast_column("gold", datasets.ClassLabel(names=["no", "yes"]))
    made.to_parquet(path) if kind == "parquet" else made.save_to_disk(path)
    assert [r.label for r in read_table(path, split="test")] == [None, "1"]
    assert [(r.id, r.label) for r in read_table(path)] == [("1", "1")]
    assert "dropped 1 rows without a label" in caplog.text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((True, "true"), (3, "3"), (2.5, "2.5"), ("no", "no"), ([1, "a"], '[1, "a"]')),
        *((Decimal("4.5"), "4.5"), (date(2026, 1, 2), "2026-01-02"), (b"x", "b'x'")),
    ],
)
def test_labels_of_every_type_are_text(value, text):
    assert label_text(value) == text


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl"])
def test_rows_without_a_label_are_dropped_and_counted_where_labels_are_needed(
    tmp_path, name, caplog
):
    cells = [("a", "yes"), ("b", ""), ("c", "no"), ("d", ""), ("e", "-")]
    mark = "," if name == "x.csv" else "\t"
    text = "".join(f"{mark.join(row)}\n" for row in [("text", "label"), *cells])
    if name == "x.jsonl":
        rows = [{"text": a, "label": b or None} if a != "d" else {"text": a} for a, b in cells]
        text = "".join(json.dumps(row) + "\n" for row in rows)
    path = tmp_path / name
    path.write_text(text)
    layout = "glue_tsv" if name == "x.tsv" else "table"
    again = partial(read, path, layout, Columns(("text",), label="label"))
    assert [(r.id, r.label) for r in again()] == [("0", "yes"), ("2", "no")]
    assert "dropped 3 rows without a label" in caplog.text
    assert [r.label for r in again(split="test")] == ["yes", None, "no", None]
    if name != "x.jsonl":  # a map may make a label of an empty cell
        assert len(again(label_map={"": "none"})) == 4


@pytest.mark.parametrize("word", ["null", "NA", "nan", "N/A", "None", "true", "007", "1e5", "inf"])
def test_a_cell_of_a_csv_is_a_word(tmp_path, word):
    path = tmp_path / "x.csv"
    path.write_text(f"text,label\n{word},{word}\nother,b\n")
    first, _ = read_table(path, columns=Columns(("text",), label="label"))
    assert (first.texts, first.label) == ((word,), word)


def test_each_task_of_adv_glue_has_its_rows_and_the_head_of_its_plain_set(tmp_path):
    (tmp_path / "advglue").mkdir()
    sst2 = [{"idx": 7, "label": 1, "sentence": "uneaqsy mishmash"}]
    mnli = [{"premise": "a", "hypothesis": "b", "label": 2, "idx": 0}]
    (tmp_path / "advglue" / "dev.json").write_text(json.dumps({"sst2": sst2, "mnli": mnli}))
    (sentence,) = read_split(dataset("advglue_sst2"), tmp_path, "dev")
    assert (sentence.id, sentence.texts, sentence.label) == ("0", ("uneaqsy mishmash",), "positive")
    (pair,) = read_split(dataset("advglue_mnli"), tmp_path, "dev")
    assert pair.label == "contradiction"
    assert task("advglue_qqp") is task("qqp")


def read_as(name, path):
    return read(path, dataset(name).layout, dataset(name).columns)


def test_commonsenseqa_from_the_file_and_from_the_hub(tmp_path):
    texts = ("bank", "mall", "pub", "zoo", "home")
    choices = [{"label": x, "text": text} for x, text in zip("ABCDE", texts, strict=True)]
    question = {"stem": "Where?", "choices": choices}
    row = {"id": "q1", "question": question, "answerKey": "B"}
    path = write_rows(tmp_path / "x.jsonl", [row])
    (found,) = read_as("commonsenseqa", path)
    assert (found.id, found.question, found.choices) == ("q1", "Where?", texts)
    assert (found.answer, found.where) == (1, f"{path}:1")
    unlabelled = replace(dataset("commonsenseqa").columns, label=None)  # as answers of a file take
    assert read(path, "choices", unlabelled) == [found.unlabelled()]
    hub = {"id": "q1", "question": "Where?", "answerKey": "B"}
    hub |= {"choices": {"label": [*"ABCDE"], "text": [*texts]}}
    entry = replace(dataset("commonsenseqa"), columns=dataset("commonsenseqa").hub.columns)
    assert table_examples("hub", [(f"{path}:1", hub)], entry, labelled=True) == [found]


def test_swag_as_published(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text(
        ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,"
        'label\n0,v,3,x,"A man, old.",He,gold,runs.,eats.,"sits, and waits.",flies.,2\n'
    )
    (found,) = read_as("swag", path)
    texts = ("A man, old.", "He runs.", "He eats.", "He sits, and waits.", "He flies.")
    assert (found.texts, found.answer) == (texts, 2)


def test_hellaswag_as_published(tmp_path):
    row = {"ind": 4, "ctx_a": "A boat.", "ctx_b": "it", "endings": ["sinks", "sails", "a", "b"]}
    rows = [row | {"label": 1}, row | {"ctx_b": "", "label": 0}]
    path = write_rows(tmp_path / "x.jsonl", rows)
    first, second = read_as("hellaswag", path)
    assert (first.choices[1], first.answer, second.choices[0]) == ("it sails", 1, "sinks")


def test_questions_without_an_answer_are_dropped_and_counted_where_labels_are_needed(
    tmp_path, caplog
):
    path = tmp_path / "x.csv"
    path.write_text("q,a,b,label\nOne?,x,y,0\nTwo?,x,y,\nThree?,x,y,B\n")
    columns = Columns(("q", "a", "b"), label="label")
    found = read(path, "choices", columns)
    assert [(e.question, e.answer) for e in found] == [("One?", 0), ("Three?", 1)]
    assert "dropped 1 rows without a label" in caplog.text
    assert [e.answer for e in read(path, "choices", columns, "test")] == [0, None, 1]
    path.write_text("q,a,b,label\nOne?,x,y,-1\n")
    assert read(path, "choices", columns, "test")[0].answer is None
