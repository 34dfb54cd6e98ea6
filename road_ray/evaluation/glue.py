"""GLUE averages, and the zip file for its server.

Source: gluebenchmark.com, "submission instructions"; the averages as documented below.
"""

import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from road_ray.data import catalog
from road_ray.data.task_and_dataset import Classify, Dataset, Regress
from road_ray.errors import DataError
from road_ray.system.files import read_json

SHEETS = {
    "cola": ("CoLA.tsv", 1_063),
    "sst2": ("SST-2.tsv", 1_821),
    "mrpc": ("MRPC.tsv", 1_725),
    "stsb": ("STS-B.tsv", 1_379),
    "qqp": ("QQP.tsv", 390_965),
    "mnli": ("MNLI-m.tsv", 9_796),
    "mnli_mismatched": ("MNLI-mm.tsv", 9_847),
    "qnli": ("QNLI.tsv", 5_463),
    "rte": ("RTE.tsv", 3_000),
    "wnli": ("WNLI.tsv", 146),
    "ax": ("AX.tsv", 1_104),
}
"""File of each data set in a submission, and the number of rows in its test set."""
_OPTIONAL = ("ax",)

# ELECTRA's tables: one metric per task, MNLI matched, no WNLI (Clark et al. 2020, section 3.1).
_ELECTRA = {name: ("accuracy",) for name in ("sst2", "mrpc", "qqp", "mnli", "qnli", "rte")}
_ELECTRA |= {"cola": ("matthews",), "stsb": ("spearman",)}


def average(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the GLUE averages of the metrics ``eval/<data set>/<metric>``, by two definitions.

    ``glue/electra`` as in ELECTRA's tables (eight tasks, accuracy, Matthews for CoLA, Spearman for
    STS); ``glue/leaderboard`` as on the server (nine tasks, each the mean of its metrics, MNLI of
    both sets). An average is left out unless all of its tasks are present.
    """
    names_of = {name: catalog.dataset(name).metrics for name in SHEETS if name not in _OPTIONAL}
    electra = [_mean(metrics, name, names) for name, names in _ELECTRA.items()]
    leaderboard = {name: _mean(metrics, name, names) for name, names in names_of.items()}
    leaderboard["mnli"] = (leaderboard["mnli"] + leaderboard.pop("mnli_mismatched")) / 2
    averages = {"electra": electra, "leaderboard": list(leaderboard.values())}
    means = {f"glue/{name}": sum(values) / len(values) for name, values in averages.items()}
    return {name: value for name, value in means.items() if math.isfinite(value)}


def electra_score(dataset: Dataset, metrics: Mapping[str, float]) -> float:
    """Return the score of a data set as in ELECTRA's tables, or the mean of its metrics outside
    GLUE. Return NaN if it was not evaluated.
    """
    return _mean(metrics, dataset.name, _ELECTRA.get(dataset.name, dataset.figures))


def write_submission(
    path: Path, predictions: Mapping[str, Mapping[str, str]], *, partial: bool = False
) -> Path:
    """Write the zip file for the GLUE server from ``{data set: {id: label}}`` of the test sets.

    ``partial`` allows missing data sets, which the server does not accept. Raises ``DataError`` for
    a data set outside GLUE, for a number of rows or ids other than those of the test set, for an
    unknown label, and for a number out of range; nothing is written then.
    """
    unknown = [name for name in predictions if name not in SHEETS]
    missing = [n for n in SHEETS if n not in predictions and n not in _OPTIONAL]
    if unknown or (missing and not partial):
        raise DataError(
            f"{path}: {', '.join(unknown)} is not in GLUE\n  known: {', '.join(SHEETS)}"
            if unknown
            else f"{path}: no predictions for {', '.join(missing)}\n"
            "  fix: road evaluate data.split=test for each; the server wants all of them"
        )
    sheets = {}
    for name, rows in predictions.items():
        (file_name, num_rows), entry = SHEETS[name], catalog.dataset(name)
        if rows.keys() != {str(number) for number in range(num_rows)}:
            raise DataError(
                f"{name}: {len(rows)} predictions, the test set has {num_rows} rows, with the "
                f"ids 0 to {num_rows - 1}\n"
                "  fix: predict the whole official test file: data.split=test, no max_judged_rows"
            )
        kind, labels = catalog.TASKS[entry.task].kind, [rows[str(n)] for n in range(num_rows)]
        if isinstance(kind, Regress):
            labels = [f"{min(max(float(x), kind.low), kind.high):.3f}" for x in labels]
        else:
            assert isinstance(kind, Classify)
            if unknown := [label for label in labels if label not in kind.labels]:
                raise DataError(
                    f"{name}: prediction {unknown[0]!r}\n  allowed: {', '.join(kind.labels)}"
                )
            server_labels = {own: server for server, own in entry.label_map.items()}
            labels = [server_labels.get(label, label) for label in labels]
        lines = [f"{number}\t{label}" for number, label in enumerate(labels)]
        sheets[file_name] = "\n".join(["index\tprediction", *lines]) + "\n"
    partly = path.with_name(f"{path.name}.partial")
    with zipfile.ZipFile(partly, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in sheets.items():
            file.writestr(name, content)
    return partly.replace(path)


def predictions_of(runs: Sequence[Path]) -> dict[str, dict[str, str]]:
    """Return the predictions in ``predictions/`` of these run directories, by data set.

    Raises ``DataError`` if two runs have the same data set.
    """
    source: dict[str, Path] = {}
    for run in runs:
        paths = sorted((run / "predictions").glob("*/predictions.json"))
        if not paths:
            raise DataError(f"{run}: no predictions/<data set>/predictions.json in it")
        for path in paths:
            name = path.parent.name
            if name in source:
                raise DataError(f"{path}: {source[name]} has predictions for {name} too")
            source[name] = path
    return {name: read_json(path, error=DataError) for name, path in source.items()}


def _mean(metrics: Mapping[str, float], name: str, chosen: Sequence[str]) -> float:
    values = [metrics.get(f"eval/{name}/{metric}", math.nan) for metric in chosen]
    return sum(values) / len(values)
