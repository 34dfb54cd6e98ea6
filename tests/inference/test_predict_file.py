"""Files of rows in every format give the same predictions; a killed run resumes at its chunk."""

import csv
import datetime
import io
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from road_ray.errors import ConfigError, DataError, ResourceError
from road_ray.inference import predict_file as predicting
from road_ray.inference.input_rows import ColumnChoice, TrainedInput, input_rows
from road_ray.inference.load_model import load
from road_ray.inference.predict_file import PartialOutput, finish, predict_file
from tests.published import TEXTS, publish
from tests.row_files import write_rows
from tests.runs import python

ROWS = [{"text": "a fine film", "id": "x1"}, {"text": 'dull, "very"', "id": "x2"}]
TEXT = TrainedInput(usual=("text",))
EACH = ColumnChoice()  # every field is a column of its own name


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A sentiment model with random weights."""
    place, labels = tmp_path_factory.mktemp("sentiment"), ("negative", "positive")
    return publish(place, "electra", "ForSequenceClassification", labels=labels)


@pytest.fixture
def rows_file(tmp_path):
    """Write ``rows`` with the suffix's format and return the path."""

    return lambda suffix, rows=ROWS: str(write_rows(tmp_path / f"rows{suffix}", rows))


def test_standard_input_takes_texts_and_json_objects(monkeypatch):
    given = b'\xef\xbb\xbfplain text\n\n{"text": "b", "id": 7}\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    read = [row.fields for row in input_rows("-", EACH, TEXT)]
    assert read == [{"text": "plain text", "id": "0"}, {"text": "b", "id": "7"}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (b"", "has no rows"),
        (b"fine\ncaf\xe9\n", r"<stdin>:2: .*not UTF-8"),
        (b'[{"text": "fine"}]', r"<stdin>:1: the beginning of a JSON array.*one object a line"),
        (b'[\n {"text": "fine"}\n]\n', r"<stdin>:1: the beginning of a JSON array"),
        (
            b'id,"text",label\n1,fine,good\n',
            r"<stdin>:1: the beginning .* table .*a .*.csv or .tsv",
        ),
    ],
    ids=["empty", "Latin-1", "array", "printed array", "table"],
)
def test_standard_input_that_is_not_read_is_refused(monkeypatch, given, message):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    with pytest.raises(DataError, match=f"(?s){message}"):
        list(input_rows("-", EACH, TEXT))


CELLS = {"review": "fine", "label": "bad", "my stars": "3", "number": "7", "input_label": "x"}
# What predictions have too gets ``input_`` before it.
LABELS = {"input_input_label": "bad", "input_label": "x"}
REVIEWS = TrainedInput({"text": "review"}, id="number")
PAIRS = TrainedInput({"text": "title", "text_pair": "text"})  # one is named like the first field
KEPT = {"keep": {"tags": "y", "input_tags": "z"}}
BOTH = {"input_input_tags": "1", "input_tags": "2"}
CHOICES = TrainedInput({"question": "q", "choices": ["a", "b"]})
ANY = TrainedInput({"text": "text"})


@pytest.mark.parametrize(
    ("cells", "trained", "choice", "fields", "copied"),
    [
        ({"body": "a", "n": "3"}, ANY, {"fields": {"text": "body", "id": "n"}}, ("a", "3"), {}),
        ({"text": "a", "labels": "x"}, ANY, {}, ("a", "0"), {"input_labels": "x"}),
        (CELLS, REVIEWS, {}, ("fine", "7"), LABELS | {"my stars": "3"}),
        (CELLS, REVIEWS, {"ignore": ("label", "input_label")}, ("fine", "7"), {"my stars": "3"}),
        (CELLS, REVIEWS, {"keep": {"gold": "label"}}, ("fine", "7"), {"gold": "bad"}),
        (CELLS, REVIEWS, {"keep": {"score_x": "label"}}, ("fine", "7"), {"input_score_x": "bad"}),
        ({"text": "a", "y": "1", "z": "2"}, ANY, KEPT, ("a", "0"), BOTH),
        (CELLS, REVIEWS, {"fields": {"text": "my stars"}}, ("3", "7"), LABELS | {"review": "fine"}),
        ({"title": "a", "text": "b"}, PAIRS, {}, ("a", "b", "0"), {}),
        ({"text": "a", "text_pair": "b"}, PAIRS, {}, ("a", "b", "0"), {}),  # by fields of the model
        (dict(zip("qabx", "1234", strict=True)), CHOICES, {}, ("1", ["2", "3"], "0"), {"x": "4"}),
    ],
)
def test_columns_of_the_training_or_chosen_ones_are_read_and_others_carried_through(
    rows_file, cells, trained, choice, fields, copied
):
    path = rows_file(".csv", [cells])
    [row] = input_rows(path, ColumnChoice(**choice), trained)
    assert tuple(row.fields[name] for name in (*trained.fields, "id")) == fields
    assert row.copied == copied


@pytest.mark.parametrize(
    ("fields", "trained", "error", "message"),
    [
        ({"text": "bodi"}, ANY, DataError, r"csv:2: no column 'bodi'.*nearest: 'bodi' -> 'body'"),
        ({"texts": "body"}, ANY, ConfigError, "the model has no field 'texts'"),
        ({}, ANY, DataError, "no column 'text'; found: body, text_pair"),
        ({}, PAIRS, DataError, "no column 'title'"),
    ],
)
def test_unknown_columns_are_refused(rows_file, fields, trained, error, message):
    path = rows_file(".csv", [{"body": "a fine film", "text_pair": "b"}])
    with pytest.raises(error, match=message):
        list(input_rows(path, ColumnChoice(fields), trained))


def test_ids_that_are_null_are_counted_and_never_those_that_are_given(rows_file):
    """``id: null`` was the text ``None`` in every row."""

    def ids(*given):
        path = rows_file(".jsonl", [{"text": "a", "id": value} for value in given])
        return [row.fields["id"] for row in input_rows(path, EACH, TEXT)]

    assert ids(None, None, "") == ["0", "1", "2"]
    assert ids("1", None, "7", None) == ["1", "row 1", "7", "row 3"]
    assert ids(None, "q", None) == ["0", "q", "row 2"]
    with pytest.raises(DataError, match=r"rows.jsonl:3: id '0' is also the number of a row"):
        ids(None, None, "0")


def test_every_row_of_jsonl_has_its_own_columns_and_flat_questions_keep_theirs(rows_file):
    path = rows_file(".jsonl", [{"text": "a"}, {"text": "b", "stars": 3}])
    assert [row.copied for row in input_rows(path, EACH, TEXT)] == [{}, {"stars": 3}]
    flat = {"id": "q", "title": "t", "question": "Who?", "context": "Ada.", "answers": {"text": []}}
    [row] = input_rows(
        rows_file(".jsonl", [flat]), EACH, TrainedInput(usual=("question", "context"))
    )
    assert set(row.fields) == {"id", "question", "context"}
    assert row.copied == {"title": "t", "answers": {"text": []}}


def test_questions_of_an_article_are_rows_of_a_model_of_pairs_too(rows_file):
    question = {"id": "q", "question": "Who?", "answers": []}
    path = rows_file(".jsonl", [{"paragraphs": [{"context": "Ada.", "qas": [question]}]}])
    pairs = TrainedInput({"text": "question", "text_pair": "context"})
    for chosen, trained in (({}, pairs), ({"text": "question"}, TEXT)):
        [row] = input_rows(path, ColumnChoice(chosen), trained)
        assert (row.fields["id"], row.fields["text"]) == ("q", "Who?")
        assert "answers" not in row.copied


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv"])
def test_kept_columns_stand_beside_their_predictions(
    road, directory, tmp_path, monkeypatch, suffix
):
    monkeypatch.setattr(predicting, "CHUNK_ROWS", 3)
    days = [datetime.date(2026, 1, number) for number in range(1, 11)]
    rows = [{"text": "film " * (10 - n), "label": str(n), "day": d} for n, d in enumerate(days)]
    write_rows(tmp_path / "rows.parquet", rows)
    output = tmp_path / f"out{suffix}"
    words = ("--keep", "gold=label", "--keep", "day", "--output", output)
    assert road("predict", directory, tmp_path / "rows.parquet", *words).code == 0
    with output.open(newline="") as file:
        mark = "," if suffix == ".csv" else "\t"
        tables = csv.DictReader(file, delimiter=mark)
        read = list(map(json.loads, file) if suffix == ".jsonl" else tables)
    assert [(item["id"], item["gold"], item["day"]) for item in read] == [
        (str(number), str(number), str(day)) for number, day in enumerate(days)
    ]
    alone = load(directory)([row["text"] for row in rows])
    assert [item["label"] for item in read] == [item["label"] for item in alone]
    column = "score_positive"
    shares = [float(item.get(column) or item["scores"]["positive"]) for item in read]
    assert shares == pytest.approx([item["scores"]["positive"] for item in alone], abs=1e-5)
    assert not list(tmp_path.glob(".*partial*"))
    carried = road("predict", directory, tmp_path / "rows.parquet", "--ignore", "day").good()
    first = json.loads(carried.out.splitlines()[0])
    assert (first["input_label"], "day" in first) == ("0", False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_exit_code_6_and_the_same_command_resumes(
    road, directory, rows_file, tmp_path, monkeypatch, caplog, number
):
    monkeypatch.setattr(predicting, "CHUNK_ROWS", 4)
    caplog.set_level("INFO", logger="road_ray")
    source = rows_file(".jsonl", [{"text": f"film {number}"} for number in range(10)])
    whole, cut = tmp_path / "whole.csv", tmp_path / "cut.csv"
    assert road("predict", directory, source, "--output", whole).code == 0
    chunks, predict_chunk = [], predicting.predict_chunk

    def signalled(predictor, chunk):
        chunks.append(len(chunk))
        if len(chunks) == 3:
            os.kill(os.getpid(), number)
        return predict_chunk(predictor, chunk)

    monkeypatch.setattr(predicting, "predict_chunk", signalled)
    words = ("predict", directory, source, "--output", cut)
    stopped = road(*words)
    assert stopped.code == 6
    assert "to resume, run the same command" in stopped.err
    assert not cut.exists()
    with (tmp_path / ".cut.csv.partial").open("ab") as file:
        file.write(b'{"id": "torn')  # what a kill within a chunk leaves
    assert road(*words).code == 0
    assert "resuming after 8 rows" in caplog.text
    assert chunks == [4, 4, 2, 2]
    assert cut.read_bytes() == whole.read_bytes()


def test_infinite_thresholds_always_and_never_answer(road, rows_file, tmp_path):
    model = publish(tmp_path / "model", "bert", "ForQuestionAnswering")
    rows = rows_file(".jsonl", [{"question": "Who?", "context": text} for text in TEXTS])
    for threshold, silent in (("inf", {False}), ("-inf", {True})):
        output = tmp_path / f"{threshold}.jsonl"
        road("predict", model, rows, "--threshold", threshold, "--output", output).good()
        answers = [json.loads(line)["answer"] for line in output.read_text().splitlines()]
        assert {answer == "" for answer in answers} == silent
    road("predict", model, rows, "--threshold", "nan").refused(2, "threshold = nan\n  allowed: ")


def written(tmp_path, name, rows):
    with closing(PartialOutput(tmp_path / name, "row", {})) as file:
        for row in rows:
            file.append([row])
        finish(file, None)
    return tmp_path / name


def test_line_ends_in_cells_are_quoted(tmp_path):
    """A bare CR was not, and readers ended the row there; ``csv`` and pyarrow agree now."""
    cells = ["a\rb", "c\nd", "e\r\nf", "g,h", 'i"j']
    path = written(tmp_path, "o.csv", [{"id": "0", "note": cell} for cell in cells])
    with path.open(newline="") as file:
        assert [row["note"] for row in csv.DictReader(file)] == cells
    options = pa.csv.ParseOptions(newlines_in_values=True)
    assert pa.csv.read_csv(path, parse_options=options)["note"].to_pylist() == cells
    assert b"\r\n" not in path.read_bytes().replace(b'"e\r\nf"', b"")


def test_numbers_that_json_does_not_have_are_null(tmp_path):
    row = {"id": "0", "score": 0.5, "note": {"a": [float("nan"), 1.0]}, "x": float("-inf")}
    path = written(tmp_path, "o.jsonl", [row])

    def refuse(name):
        raise AssertionError(name)

    read = json.loads(path.read_text(), parse_constant=refuse)
    assert read == {"id": "0", "score": 0.5, "note": {"a": [None, 1.0]}, "x": None}
    [read] = csv.DictReader(written(tmp_path, "o.csv", [row | {"x": float("nan")}]).open())
    assert (read["note"], read["x"]) == ('{"a": [null, 1.0]}', "")


def test_a_column_of_later_rows_stands_behind_those_of_the_first(tmp_path):
    rows = [{"id": "0", "a": 1, "b": 2}, {"id": "1", "b": 3}, {"id": "2", "c": 4}]
    assert len(written(tmp_path, "o.jsonl", rows).read_text().splitlines()) == 3
    with closing(PartialOutput(tmp_path / "o.csv", "row", {})) as file:
        for row in rows[:2]:
            file.append([row])
    assert written(tmp_path, "o.csv", rows[2:]).read_text() == "id,a,b,c\n0,1,2,\n1,,3,\n2,,,4\n"


def test_an_output_that_exists_is_never_overwritten(directory, rows_file, tmp_path):
    (tmp_path / "a.csv").write_text("mine")
    with pytest.raises(ConfigError, match="already exists"):
        PartialOutput(tmp_path / "a.csv", "row", {})
    with pytest.raises(ConfigError, match="is an address"):
        PartialOutput(Path("memory://a.csv"), "row", {})
    assert (tmp_path / "a.csv").read_text() == "mine"
    with pytest.raises(ConfigError, match=r"allowed: \.jsonl, \.csv, \.tsv"):
        predict_file(load(directory), rows_file(".csv"), tmp_path / "a.xlsx", model=str(directory))
    meanwhile = PartialOutput(tmp_path / "b.jsonl", "row", {})
    meanwhile.append([{"id": "0"}])
    (tmp_path / "b.jsonl").write_text("mine")
    with pytest.raises(ConfigError, match="already exists"):
        finish(meanwhile, None)
    meanwhile.close()
    assert (tmp_path / "b.jsonl").read_text() == "mine"
    (tmp_path / "b.jsonl").unlink()
    with closing(PartialOutput(tmp_path / "b.jsonl", "row", {})) as again:
        assert again.count == 1  # the work is kept
        again.append([{"id": "1"}])
    partial = tmp_path / ".b.jsonl.partial"
    partial.write_bytes(partial.read_bytes().replace(b'"1"', b'"1'))
    with closing(PartialOutput(tmp_path / "b.jsonl", "row", {})) as damaged:
        assert damaged.count == len(list(damaged.rows())) == 1
    with closing(PartialOutput(tmp_path / "b.jsonl", "row", {"model": "other"})) as other:
        assert other.count == 0


def write_output(path, owner):
    """Write an output; the exit code is 3 if another process does or has done so."""
    try:  # one may resume another's
        with closing(PartialOutput(path, "row", {"owner": owner % 2})) as file:
            for chunk in range(file.count // 3, 6):
                file.append([{"id": str(3 * chunk + n), "owner": owner % 2} for n in range(3)])
                time.sleep(0.001 * owner)
            finish(file, None)
    except (ResourceError, ConfigError) as error:
        sys.exit(3 if re.search("another process|already exists", str(error)) else 1)


def whole_outputs(path, seed):
    """Have three processes write one output, kill some at random; return their exit codes."""
    drawn, process = random.Random(seed), multiprocessing.get_context("fork").Process
    children = [process(target=write_output, args=(path, owner)) for owner in range(3)]
    for child in children:
        child.start()
    for child in children:
        if drawn.random() < 0.3:
            time.sleep(drawn.random() * 0.005)
            child.kill()
    for child in children:
        child.join()
    return [child.exitcode for child in children]


@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.long)])
def test_of_processes_that_write_one_output_each_gives_it_whole_or_is_refused(tmp_path, rounds):
    outcomes = Counter()
    for turn in range(rounds):
        path = tmp_path / str(turn) / "o.jsonl"
        path.parent.mkdir()
        ended = whole_outputs(path, turn)
        assert set(ended) <= {0, 3, -signal.SIGKILL}, ended
        outcomes.update(ended)
        if path.exists():
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            assert [row["id"] for row in rows] == [str(n) for n in range(18)]
            assert len({row["owner"] for row in rows}) == 1
        else:
            assert 0 not in ended
            with closing(PartialOutput(path, "row", {"owner": 0})) as file:  # the lock is free
                assert file.count % 3 == 0
    assert outcomes[0] > rounds / 4
    assert outcomes[3] > rounds / 5


def test_road_predict_prints_or_writes_and_names_mistakes(
    road, directory, rows_file, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    result = road("predict", directory, rows_file(".csv")).good()
    assert [json.loads(line)["id"] for line in result.out.splitlines()] == ["x1", "x2"]
    result = road("predict", directory, rows_file(".csv"), "--output", tmp_path / "p.csv", "--json")
    assert json.loads(result.out) == {"output": str(tmp_path / "p.csv"), "rows": 2}
    assert (
        "road evaluate" not in road("predict", directory, rows_file(".csv"), "--output=~/o.csv").out
    )
    (tmp_path / "home/o.csv").rename(tmp_path / "o.csv")
    road("predict", directory, rows_file(".csv"), "--output", tmp_path / "o.csv").refused(
        2, "already exists"
    )
    result = road("predict", "no-model", rows_file(".csv"), "--output", tmp_path / "o.csv")
    assert "already exists" in result.err  # before the model is looked for
    road("predict", "no-model", tmp_path / "no.csv").refused(2, "no such file")
    assert road("predict", directory, "-", "--column", "text").code == 2
    assert road("predict", directory, "-", "--precision", "fp8").code == 2


def test_a_header_is_checked_before_torch_is_imported(directory, rows_file, tmp_path):
    """Each refusal took 5 s."""
    model = shutil.copytree(directory, tmp_path / "model")
    (model / "road_ray.json").write_text('{"columns": {"text": "review"}}')
    command = "from road_ray.cli.app import app, main; import sys\n" + (
        "try: main()\nfinally: print([m for m in ('torch', 'transformers') if m in sys.modules])"
    )
    words = ["predict", str(model), rows_file(".csv", [{"reviews": "fine", "stars": "3"}])]
    done = python(command, *words)
    assert done.returncode == 3
    assert (
        "no column 'review'; found: reviews, stars; nearest: 'review' -> 'reviews'" in done.stderr
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("content", ["", "text\n"])
def test_a_file_without_rows_is_named_and_leaves_nothing(directory, tmp_path, content):
    source = tmp_path / "rows.csv"
    source.write_text(content)
    with pytest.raises(DataError, match="has no rows"):
        predict_file(load(directory), str(source), tmp_path / "out.jsonl", model=str(directory))
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


@pytest.mark.slow
def test_standard_output_without_room_is_an_error_without_a_traceback(directory, rows_file):
    command = [sys.executable, "-m", "road_ray", "predict", str(directory), rows_file(".csv")]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "standard output: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_keeps_the_chunks_that_were_written(
    directory, rows_file, small_disk, monkeypatch
):
    monkeypatch.setattr(predicting, "CHUNK_ROWS", 50)
    source = rows_file(".jsonl", [{"text": "film", "id": str(n)} for n in range(1000)])
    disk, call = small_disk(64), {"model": str(directory)}
    with pytest.raises(ResourceError, match=r"cannot be written: .*No space") as error:
        predict_file(load(directory), source, disk / "out.jsonl", **call)
    num_rows = int(re.search(r"kept: (\d+) rows", str(error.value))[1])
    assert 0 < num_rows < 1000
    assert num_rows % 50 == 0
    assert not (disk / "out.jsonl").exists()
