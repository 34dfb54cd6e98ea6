"""Teachers that are files: answers from elsewhere, and rows that a teacher does not answer."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from road_ray.data import catalog
from road_ray.data.task_and_dataset import Classify, Task
from road_ray.distillation.weighting import Merge, correctness, mean, mean_probabilities, soften
from road_ray.errors import ConfigError, DataError, RoadError
from road_ray.inference.load_model import load
from road_ray.inference.predict_file import predict_file
from road_ray.recipes.train import answer_files
from road_ray.recipes.train.answer_cells import LEAST_PROBABILITY, reader_of
from road_ray.system.files import sha256_of
from tests.row_files import write_rows
from tests.runs import weights


@pytest.fixture
def columns(sentiment):
    """Texts and labels of the training rows."""
    path = next(Path(str(sentiment["data.root"])).glob("glue/SST-2/train.tsv"))
    with path.open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_the_answers_of_models_from_files_make_a_bit_equal_student(
    student, teachers, spied, tmp_path
):
    models = [teachers.directory / f"teacher-{number}" for number in range(3)]
    live = student("live", *models)
    files = []
    for number, suffix in enumerate((".csv", ".jsonl", ".parquet")):
        rows = []
        for row, logits in spied.items():
            values = dict(zip(("negative", "positive"), logits[number], strict=True))
            flat = {f"logit_{label}": value for label, value in values.items()}
            rows.append({"row": row, **(flat if suffix != ".jsonl" else {"logits": values})})
        files.append(write_rows(tmp_path / f"answers{suffix}", rows))
    assert weights(student("files", *files)) == weights(live)
    mixed = student("mixed", files[0], models[1], files[2])
    assert weights(mixed) == weights(live)
    entries = json.loads((mixed.directory / "teachers.json").read_text())["teachers"]
    assert entries[0]["directory"] == str(files[0])
    assert entries[0]["file_sha256"] == sha256_of(files[0])
    assert "weights_sha256" in entries[1]
    assert entries[0]["file_sha256"][:16] in (mixed.hf_dir / "README.md").read_text()
    assert "answers in a file" in (mixed.directory / "report.html").read_text()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_what_predict_writes_for_the_training_file_is_a_teacher(
    student, sentiment, teachers, spied, tmp_path, suffix
):
    predicted = tmp_path / f"predicted{suffix}"
    model = teachers.directory / "teacher-0"
    data = Path(str(sentiment["data.root"])) / "glue" / "SST-2" / "train.tsv"
    predict_file(load(str(model)), str(data), predicted, model=str(model))
    from_file, live = student("file", predicted), student("live", model)
    ours, theirs = (load_file(run.hf_dir / "model.safetensors") for run in (from_file, live))
    assert_close(ours, theirs, rtol=0, atol=1e-3)  # logarithms of probabilities
    header, rows = (lines := predicted.read_text().splitlines())[: suffix == ".csv"], lines[1:]
    rows = rows if header else lines
    predicted.write_text("\n".join([*header, *sorted(rows)]))  # as a spreadsheet sorts it
    assert weights(student("sorted", predicted)) == weights(from_file)


def test_a_label_of_a_person_is_found_by_its_text_and_its_rows_may_be_few(
    student, columns, teachers, tmp_path
):
    rows = [
        {"sentence": row["sentence"], "label": ["NEG", "positive"][int(row["label"])]}
        for row in columns[:40]
    ]
    people = write_rows(tmp_path / "people.csv", [row | {"confidence": 0.9} for row in rows])
    named = {"distillation.label_map": {str(people): {"NEG": "negative"}}}
    alone = student("alone", people, **named)
    beside = student("beside", people, teachers.directory / "teacher-0", **named)
    changes = named | {"distillation.average_loss": True, "weighting.rule": "confidence"}
    average = student("average", people, teachers.directory / "teacher-0", **changes)
    assert len({weights(run) for run in (alone, beside, average)}) == 3


def test_a_map_of_the_data_set_renames_no_label_of_the_task():
    """`road predict` writes the task's labels, which are other ones in the training file."""
    dataset = replace(catalog.dataset("sst2"), label_map={"0": "1", "1": "0", "no": "0"})
    split = SimpleNamespace(task=Task("flags", Classify(("0", "1"))), dataset=dataset)
    for row in ({"probability_0": 0.9, "probability_1": 0.1}, {"label": "no", "confidence": 0.9}):
        read = reader_of("", Path("a.csv"), list(row), split, None)
        assert read(row, "", None) == pytest.approx([math.log(0.9), math.log(0.1)])


def test_a_rule_sees_only_the_teachers_that_answer_a_row():
    logits = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))
    targets = torch.tensor([0, 1, 2, 3, 0])
    logits[1, 1] = logits[0, 2] = logits[2, 2] = logits[:, 4] = torch.nan
    for rule in (mean, correctness, Merge(mean_probabilities)):
        soft = soften(rule, logits, targets)
        assert soft.keep.tolist() == [True, True, True, True, False]
        for row, members in ((0, [0, 1, 2]), (1, [0, 2]), (2, [1])):
            alone = soften(rule, logits[members, row : row + 1], targets[row : row + 1])
            assert_close(soft.logits[row], alone.logits[0])
        if soft.weights is not None:  # the same weights of losses, whose mean is over all teachers
            assert soft.weights[[1, 0, 2], [1, 2, 2]].tolist() == [0, 0, 0]
            whole = (soft.weights[..., None] * logits.nan_to_num(0.0)).mean(0)
            assert_close(whole[:4], soft.logits[:4])


GOOD = {"row": 0, "score_negative": 0.25, "score_positive": 0.75}
BAD = {
    "unknown label": ([{"row": 0, "label": "neutral"}], "label = 'neutral'"),
    "label of a column": ([{"row": 0, "score_negative": 0.2, "score_good": 0.8}], "its labels"),
    "label twice": ([GOOD | {"score_Positive": 0.0}], "its labels"),
    "row twice": ([GOOD, GOOD], "answered twice"),
    "text twice": ([{"text": "$", "label": x} for x in ("negative", "positive")], "answered twice"),
    "sum of 1.1": ([GOOD | {"score_positive": 0.85}], "sum is 1"),
    "below zero": ([GOOD | {"score_negative": -0.25, "score_positive": 1.25}], "sum is 1"),
    "NaN": ([{"row": 0, "logit_negative": float("nan"), "logit_positive": 0}], "finite"),
    "log-probability": ([{"row": 0, "logprob_negative": 0.1, "logprob_positive": -2}], "up to 0"),
    "half a row": ([GOOD | {"score_positive": None}], "all cells empty"),
    "a word": ([GOOD | {"score_positive": "high"}], "sum is 1"),
    "confidence": ([{"row": 0, "label": "negative", "confidence": 90}], "0 to 1"),
    "row beyond the end": ([GOOD | {"row": 10**6}], "row 1000000'"),
    "row below 0": ([GOOD | {"row": -1}], "row -1'"),
    "row that is no number": ([GOOD | {"row": "first"}], "row first'"),
    "unknown text": ([{"text": "unheard of", "label": "negative"}], "'unheard of' is no row"),
    "other number of rows": ([{"label": "negative"}] * 3, "3 rows without"),
    "no values": ([{"row": 0, "answer": "negative"}], "no answer in columns"),
    "no answers": ([{"row": 0, "label": ""}], "answers none"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_is_no_teacher_is_refused_before_the_training(answered, columns, case):
    rows, problem = BAD[case]
    rows = [
        row | ({"text": columns[0]["sentence"]} if row.get("text") == "$" else {}) for row in rows
    ]
    with pytest.raises(RoadError, match=problem):
        answered(rows)


@pytest.mark.parametrize("by", ["row", "order", "text", "key"])
def test_numbers_of_rows_count_those_that_are_held_out_or_have_no_label(answered, tmp_path, by):
    texts = [f"film {number}" for number in range(30)]
    labels = ("bad", "good", "")
    own = [{"key": f"k{n}", "text": t, "label": labels[n % 3]} for n, t in enumerate(texts)]
    entry = {"train": str(write_rows(tmp_path / "own.csv", own)), "dev_fraction": 0.3}
    entry |= {"text": "text", "label": "label", "labels": ["bad", "good"], "id": "key"}
    rows = [{"logit_bad": float(number), "logit_good": 0.0} for number in range(30)]
    named = {"row": range(30), "text": texts, "key": [row["key"] for row in own]}.get(by)
    rows = [({by: name} | row) for name, row in zip(named or texts, rows, strict=True)]
    if by == "key":
        rows.reverse()
    if by == "order":
        rows = [{key: row[key] for key in ("logit_bad", "logit_good")} for row in rows]
    found = answered(rows, **{"data.sets": {"own": entry}, "data.dataset": "own"})
    assert 0 < len(found) < 20  # ten have no label, some are held out
    assert found == {(f"film {int(logits[0])}",): logits for logits in found.values()}


ONE = ("one", "two")
SAME = [math.log(0.25), math.log(0.75)]
PAIRS = [  # a data set, a row of a file, and its answer, to a pair that is learnt in both orders
    ("mrpc", {"row": 0, "score_same": 0.75, "score_different": 0.25}, SAME),
    ("mrpc", {"#1 String": "one", "#2 String": "two", "label": "1", "confidence": 0.75}, SAME),
    ("stsb", {"sentence1": "one", "sentence2": "two", "label": "3.5"}, [3.5]),
    ("stsb", {"text": "one", "text_pair": "two", "value": 3.5}, [3.5]),
]


@pytest.mark.parametrize(("name", "row", "there"), PAIRS)
def test_pairs_are_answered_in_both_orders_and_by_their_own_order_first(
    answered, tmp_path, name, row, there
):
    head, *lines = {
        "mrpc": ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "1\t7\t8\tone\ttwo"),
        "stsb": ("index\tsentence1\tsentence2\tscore", "0\tone\ttwo\t5.0"),
    }[name]
    place = tmp_path / "glue" / {"mrpc": "MRPC", "stsb": "STS-B"}[name]
    place.mkdir(parents=True)
    (place / "train.tsv").write_text("\n".join([head, *lines, ""]))
    changes = {"data.root": str(tmp_path), "data.dataset": name}
    found = answered([row], **changes)
    assert found == {ONE: pytest.approx(there), ONE[::-1]: pytest.approx(there)}
    if "text_pair" in row:  # a teacher that says something else of the other order
        other = row | {"text": "two", "text_pair": "one", "value": 1.0}
        assert answered([row, other], **changes) == {ONE: [3.5], ONE[::-1]: [1.0]}


@pytest.fixture
def moods(tmp_path):
    """An entry of two rows with several labels, one text with semicolons."""
    rows = [{"text": "one", "labels": "joy;fear"}, {"text": "two", "labels": ""}]
    train = str(write_rows(tmp_path / "moods.csv", rows))
    entry = {"kind": "multi", "text": "text", "label": "labels", "labels": ["joy", "anger", "fear"]}
    entry |= {"train": train, "dev": train, "separator": ";"}
    return {"data.sets": {"moods": entry}, "data.dataset": "moods"}


@pytest.mark.parametrize(
    "row",
    [
        {"row": 0, "labels": ["fear", "joy"], "confidence": 0.9},
        {"row": 0, "labels": '["Fear", "joy"]', "confidence": 0.9},
        {"row": 0, "labels": "fear; joy", "confidence": 0.9},
        {"row": 0, "joy": 0.9, "anger": 0.1, "fear": 0.9},
        {"row": 0, "probabilities": {"anger": 0.1, "joy": 0.9, "fear": 0.9}},
    ],
)
def test_several_labels_of_a_row(answered, moods, row):
    logit = math.log(0.9 / 0.1)
    only = {("one",): pytest.approx([logit, -logit, logit])}
    assert answered([row], **moods) == only
    assert answered([row, {"row": 1, "probabilities": None}], **moods) == only


def test_lists_of_labels_may_be_empty_and_have_known_labels_only(answered, moods):
    sure = pytest.approx([-math.log(1e8 - 1)] * 3)
    assert answered([{"row": 1, "labels": []}], **moods) == {("two",): sure}
    for row, words in (
        ({"labels": ["joi"]}, "label = 'joi'.*did you mean 'joy'"),
        ({"labels": ["joy", "joy"]}, "twice"),
        ({"labels": ["joy"], "confidence": 2}, "allowed: 0 to 1"),
        ({"joy": 2, "anger": 0, "fear": 0}, "probabilities from 0 to 1"),
    ):
        with pytest.raises(DataError, match=words):
            answered([{"row": 0} | row], **moods)


def test_choices_have_a_list_of_scores_or_the_number_of_one(answered, tmp_path):
    rows = [
        {"question": f"q{n}", **dict.fromkeys("abcde", "x"), "label": n or ""} for n in range(3)
    ]
    table = str(write_rows(tmp_path / "own.csv", rows))  # the first row has no label
    entry = {"kind": "choose", "text": [*rows[0]][:6], "train": table, "dev": table}
    own = {"data.sets": {"mine": entry}, "data.dataset": "mine"}
    shares = [0.1, 0.1, 0.1, 0.2, 0.5]
    logs = pytest.approx([math.log(share) for share in shares])
    sure = pytest.approx([math.log(0.1)] * 4 + [math.log(0.6)])
    for scores in (shares, str(shares)):
        rows = [{"row": 2, "choice": 4, "confidence": 0.6}, {"row": 1, "scores": scores}]
        assert [*answered(rows, **own).values()] == [logs, sure]
    for row, words in (
        ({"scores": [0.5, 0.5]}, "a list of 5"),
        ({"scores": "high"}, "a list of 5"),
        ({"scores": [0.5] * 5}, "sum is 1"),
        ({"choice": 5}, "label = 5"),
    ):
        with pytest.raises(DataError, match=words):
            answered([{"row": 1} | row], **own)


def test_a_data_set_of_the_hub_is_a_teacher(answered, sentiment, columns, monkeypatch):
    import datasets

    name = "datasets/people/answers@v1/validation"
    teachers = {"distillation.teachers": [name]}
    with pytest.raises(DataError, match=f"{name} could not be loaded from the hub"):
        answered([GOOD], **teachers)  # there is no network
    names = datasets.ClassLabel(names=["positive", "negative"])
    rows = datasets.Dataset.from_dict({"row": [3, 1], "label": [0, 1]}).cast_column("label", names)
    load_rows = Mock(return_value=rows)
    monkeypatch.setattr(answer_files, "load_rows", load_rows)
    low = math.log(LEAST_PROBABILITY)
    assert answered([GOOD], **teachers) == {
        (columns[3]["sentence"],): pytest.approx([low, 0.0]),
        (columns[1]["sentence"],): pytest.approx([0.0, low]),
    }
    hub, split = load_rows.call_args.args
    assert (hub.path, hub.revision, split) == ("people/answers", "v1", "validation")
    hashes = [answer_files.file_entry(name, catalog.TASKS["sentiment"], None)]
    load_rows.return_value = rows.select([0])
    hashes.append(answer_files.file_entry(name, catalog.TASKS["sentiment"], None))
    assert len({entry["file_sha256"] for entry in hashes}) == 2


def test_rows_without_a_label_and_an_answer_are_refused(answered, tmp_path):
    more = tmp_path / "more.txt"
    more.write_text("a film without a label\n")
    with pytest.raises(DataError, match="1 rows of sst2 have no label"):
        answered([GOOD], **{"data.unlabelled": [str(more)]})
    text = {"text": "a film without a label", "label": "negative"}
    answered([text], **{"data.unlabelled": [str(more)]})


def test_files_of_other_tasks_and_missing_ones_are_refused(answered, tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        answered([GOOD], **{"distillation.teachers": [str(tmp_path / "no.csv")]})
    with pytest.raises(DataError, match="no answer in columns"):
        answered([GOOD], **{"data.dataset": "squad_v2"})
    with pytest.raises(ConfigError, match="has no states"):
        answered([GOOD], **{"distillation.matching.hidden_weight": 0.5})
