"""Record of a trial in its directory: ``trial.json``, and ``reports.jsonl`` while it runs.

The study is the truth; the process of a trial tells its end to the driver by the record.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from road_ray.errors import ResourceError
from road_ray.system.json_file import write_json_atomic
from road_ray.training.monitoring.metrics_journal import read_rows

_DIGEST = "sha256"  # over all other fields
DIVERGED = "diverged"  # how the reason of a trial begins whose loss was not finite
ENDED = ("complete", "pruned", "failed")


@dataclass(frozen=True)
class Record:
    """One trial: its values, its state, its results."""

    number: int
    params: Mapping[str, Any]  # as Optuna stores them
    state: str = "running"  # or one of ENDED
    values: tuple[float, ...] = ()  # one per metric, means over seeds
    deviation: tuple[float | None, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)  # every figure, means over seeds
    reason: str = ""  # why it failed or was stopped
    seconds: float = 0.0
    teacher_seconds: float = 0.0
    origin: str = ""  # the earlier sweep of a copied trial, which no budget counts
    retry_of: int | None = None  # the failed trial whose values it tries again
    study: str = ""  # identity of the study

    @property
    def ended(self) -> bool:
        return self.state in ENDED


@dataclass(frozen=True)
class Report:
    """An intermediate figure of the first metric and the first seed."""

    step: int
    percent: float  # progress of the run
    value: float


@dataclass(frozen=True)
class Outcome:
    """Result of a trial: one value per metric, over its seeds."""

    values: Sequence[float]
    deviation: Sequence[float | None] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    teacher_seconds: float = 0.0


OnReport = Callable[[Report], None]
Run = Callable[[Path, Mapping[str, Any], OnReport], Outcome]
"""``run(directory, params, on_report)``; ``on_report`` may end it by ``SystemExit``."""


def trial_directory(directory: Path, number: int) -> Path:
    """Return the directory of a trial."""
    return directory / "trials" / f"{number:04d}"


def path_of(directory: Path, number: int) -> Path:
    """Return the path of a trial's record."""
    return trial_directory(directory, number) / "trial.json"


def write(directory: Path, record: Record) -> None:
    """Write the record atomically."""
    body = asdict(record)
    write_json_atomic(path_of(directory, record.number), body | {_DIGEST: _digest(body)})


def read(directory: Path, number: int) -> Record | None:
    """Return the record of a trial, or None if there is none or its digest does not match."""
    try:
        body = json.loads(path_of(directory, number).read_text(encoding="utf-8"))
        if body.pop(_DIGEST) != _digest(body) or body["number"] != number:
            return None
        known = {field.name for field in fields(Record)}
        record = Record(**{name: value for name, value in body.items() if name in known})
        return replace(record, values=tuple(record.values), deviation=tuple(record.deviation))
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


def _digest(body: Mapping[str, object]) -> str:
    """Return the sha256 of a record's fields, equal before and after a round trip through JSON."""
    text = json.dumps(body, sort_keys=True, default=str)
    finite = re.sub(r"-?\b(NaN|Infinity)\b", "null", text)  # as in JSON files
    return hashlib.sha256(finite.encode()).hexdigest()


def trial_numbers(directory: Path) -> list[int]:
    """Return the numbers of the trials that have a directory."""
    places = (directory / "trials").glob("[0-9]*")
    return sorted(int(place.name) for place in places if place.name.isdecimal())


def read_reports(place: Path) -> list[Report]:
    """Return the intermediate figures of a trial, one per step.

    Raises ``ResourceError`` for a malformed row.
    """
    path = place / "reports.jsonl"
    if not path.is_file():
        return []
    reports: dict[int, Report] = {}
    for number, row in enumerate(read_rows(path), start=1):
        try:
            report = Report(int(row["step"]), float(row["percent"]), float(row["value"]))
        except (KeyError, ValueError, TypeError) as error:
            raise ResourceError(
                f"{path}:{number}: not a report of a trial ({error!r})\n  fix: delete that line"
            ) from error
        reports[report.step] = report
    return [reports[step] for step in sorted(reports)]


def add_report(place: Path, report: Report) -> None:
    """Append an intermediate figure."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / "reports.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(report)) + "\n")
