"""GLUE averages against hand-computed values, and valid submissions."""

import json
import math
import zipfile

import pytest

from road_ray.data.catalog import TASKS, dataset
from road_ray.data.readers.custom_dataset import CustomDataset
from road_ray.data.task_and_dataset import Regress
from road_ray.errors import DataError
from road_ray.evaluation.glue import (
    SHEETS,
    average,
    electra_score,
    predictions_of,
    write_submission,
)


@pytest.fixture(scope="module")
def complete():
    predictions = {}
    for name, (_, num_rows) in SHEETS.items():
        kind = TASKS[dataset(name).task].kind
        label = "2.5" if isinstance(kind, Regress) else kind.labels[-1]
        predictions[name] = {str(number): label for number in range(num_rows)}
    return predictions


def test_the_zip_has_every_file_with_the_names_of_the_server(complete, tmp_path):
    path = write_submission(tmp_path / "glue.zip", complete)
    assert [p.name for p in tmp_path.iterdir()] == ["glue.zip"]
    with zipfile.ZipFile(path) as file:
        assert sorted(file.namelist()) == sorted(name for name, _ in SHEETS.values())
        first = {n: file.read(n).decode().splitlines()[:2] for n in file.namelist()}
        rows = {n: len(file.read(n).decode().splitlines()) - 1 for n in file.namelist()}
    assert rows == dict(SHEETS.values())
    assert {lines[0] for lines in first.values()} == {"index\tprediction"}
    labels = {name[: -len(".tsv")]: lines[1].split("\t")[1] for name, lines in first.items()}
    assert labels == dict.fromkeys(("CoLA", "SST-2", "MRPC", "QQP"), "1") | {
        "STS-B": "2.500",
        **dict.fromkeys(("MNLI-m", "MNLI-mm", "AX"), "neutral"),
        **dict.fromkeys(("QNLI", "RTE"), "not_entailment"),
        "WNLI": "0",
    }


SHIFTED = {str(n + 1): "entailment" for n in range(146)}


@pytest.mark.parametrize(
    ("partial", "given", "message"),
    [
        (False, {"rte": None}, "no predictions for rte"),
        (False, {"snli": {}}, "snli is not in GLUE"),
        (True, {"rte": {"0": "entailment"}}, "rte: 1 predictions, the test set has 3000 rows"),
        (True, {"wnli": SHIFTED}, "146 rows, with the ids 0 to 145"),
        (True, {"wnli": dict.fromkeys(map(str, range(146)), "yes")}, "prediction 'yes'"),
    ],
)
def test_what_the_server_would_refuse_is_refused_here(complete, tmp_path, partial, given, message):
    whole = ({} if partial else complete) | given
    predictions = {name: rows for name, rows in whole.items() if rows is not None}
    with pytest.raises(DataError, match=message):
        write_submission(tmp_path / "glue.zip", predictions, partial=partial)
    assert not list(tmp_path.iterdir())


def test_a_part_may_be_written_and_numbers_stay_in_range(tmp_path):
    rows = {str(n): "5.7" if n else "-1" for n in range(1379)}
    path = write_submission(tmp_path / "part.zip", {"stsb": rows}, partial=True)
    with zipfile.ZipFile(path) as file:
        assert file.read("STS-B.tsv").decode().splitlines()[1:3] == ["0\t0.000", "1\t5.000"]


def test_predictions_are_gathered_from_runs(tmp_path):
    for run, name in (("a", "rte"), ("b", "wnli"), ("c", "rte")):
        place = tmp_path / run / "predictions" / name
        place.mkdir(parents=True)
        (place / "predictions.json").write_text(json.dumps({"0": run}))
    assert predictions_of([tmp_path / "a", tmp_path / "b"]) == {
        "rte": {"0": "a"},
        "wnli": {"0": "b"},
    }
    with pytest.raises(DataError, match="has predictions for rte too"):
        predictions_of([tmp_path / "a", tmp_path / "c"])
    with pytest.raises(DataError, match="no predictions"):
        predictions_of([tmp_path])


def test_the_one_figure_of_a_data_set_in_the_tables_of_electra():
    figures = {"eval/qqp/f1": 30.0, "eval/qqp/accuracy": 67.0, "eval/mnli_mismatched/accuracy": 1.0}
    figures |= {"eval/mnli/accuracy": 50.0, "eval/squad_v1/f1": 80.0, "eval/squad_v1/exact": 70.0}
    assert electra_score(dataset("qqp"), figures) == 67.0
    assert electra_score(dataset("mnli"), figures) == 50.0
    assert electra_score(dataset("squad_v1"), figures) == pytest.approx(75.0)
    assert math.isnan(electra_score(dataset("rte"), figures))
    own = CustomDataset(train="x.csv", text=("t",), labels=("a", "b"), metrics=("f1",))
    assert electra_score(own.dataset("mine"), {"eval/mine/f1": 60.0}) == 60.0


def test_averages_by_hand():
    figures = {f"eval/{n}/accuracy": 80.0 for n in ("sst2", "mrpc", "qqp", "mnli", "qnli", "rte")}
    figures |= {"eval/cola/matthews": 40.0, "eval/stsb/spearman": 90.0, "eval/stsb/pearson": 92.0}
    assert average(figures) == {"glue/electra": pytest.approx((6 * 80 + 40 + 90) / 8)}
    figures |= {"eval/mrpc/f1": 90.0, "eval/qqp/f1": 70.0}
    figures |= {"eval/mnli_mismatched/accuracy": 82.0, "eval/wnli/accuracy": 60.0}
    # CoLA 40, SST 80, MRPC 85, STS 91, QQP 75, MNLI 81, QNLI 80, RTE 80, WNLI 60
    assert average(figures)["glue/leaderboard"] == pytest.approx(672 / 9)
    assert average({}) == {}
