"""What is known of one trial, in its own directory: `trial.json`, and `reports.jsonl` on the way.

Together with the study these are the truth of a sweep; either can be made again from the other.
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
from road_ray.training.monitoring.journal import read_rows, write_json_atomic

_DIGEST = "sha256"  # over all other fields of a record
ENDED = ("complete", "pruned", "failed")


@dataclass(frozen=True)
class Record:
    """One trial: the values it runs with, how it stands, what came out."""

    number: int
    params: Mapping[str, Any]  # as Optuna keeps them
    state: str = "running"  # or one of ENDED
    values: tuple[float, ...] = ()  # one a metric, means over seeds
    deviation: tuple[float | None, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)  # all of them, means over seeds
    reason: str = ""  # why it failed or was stopped
    seconds: float = 0.0
    teacher_seconds: float = 0.0
    origin: str = ""  # the earlier sweep that it comes from; such trials are no part of a budget
    parent: int | None = None  # the trial whose checkpoint it goes on from, in a population
    parent_step: int = 0

    @property
    def ended(self) -> bool:
        return self.state in ENDED


@dataclass(frozen=True)
class Report:
    """An intermediate figure of the first metric, first seed."""

    step: int
    percent: float  # of the run's own steps
    value: float


@dataclass(frozen=True)
class Outcome:
    """What a trial gives: one value a metric, over its seeds."""

    values: Sequence[float]
    deviation: Sequence[float | None] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    teacher_seconds: float = 0.0


Tell = Callable[[Report], None]
Run = Callable[[Path, Mapping[str, Any], Tell], Outcome]
"""``run(directory, params, tell)``: ``tell`` may end it by ``SystemExit``."""


def trial_directory(directory: Path, number: int) -> Path:
    """The directory of a trial."""
    return directory / "trials" / f"{number:04d}"


def path_of(directory: Path, number: int) -> Path:
    """Return where the record of a trial lies."""
    return trial_directory(directory, number) / "trial.json"


def write(directory: Path, record: Record) -> None:
    """Keep the record, whole or not at all."""
    body = asdict(record)
    write_json_atomic(path_of(directory, record.number), body | {_DIGEST: _digest(body)})


def read(directory: Path, number: int) -> Record | None:
    """Return the record of a trial; None where there is none, or where its digest shows that it is
    not as it was written.
    """
    try:
        body = json.loads(path_of(directory, number).read_text(encoding="utf-8"))
        if body.pop(_DIGEST) != _digest(body) or body["number"] != number:
            return None
        known = {one.name for one in fields(Record)}
        record = Record(**{name: value for name, value in body.items() if name in known})
        return replace(record, values=tuple(record.values), deviation=tuple(record.deviation))
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


def _digest(body: Mapping[str, Any]) -> str:
    """Return the sha256 of a record's fields, equal before and after they were a JSON file."""
    text = json.dumps(body, sort_keys=True, default=str)
    finite = re.sub(r"-?\b(NaN|Infinity)\b", "null", text)  # as JSON files have them
    return hashlib.sha256(finite.encode()).hexdigest()


def trial_numbers(directory: Path) -> list[int]:
    """The trials that have a directory."""
    places = (directory / "trials").glob("[0-9]*")
    return sorted(int(place.name) for place in places if place.name.isdecimal())


def read_reports(place: Path) -> list[Report]:
    """Return the figures that a trial told on its way, each step once. Raises ``ResourceError`` for
    a row that is none.
    """
    path = place / "reports.jsonl"
    if not path.is_file():
        return []
    found: dict[int, Report] = {}
    for number, row in enumerate(read_rows(path), start=1):
        try:
            one = Report(int(row["step"]), float(row["percent"]), float(row["value"]))
        except (KeyError, ValueError, TypeError) as error:
            raise ResourceError(
                f"{path}:{number}: not a figure of a trial ({error!r})\n  fix: delete that line"
            ) from error
        found[one.step] = one
    return [found[step] for step in sorted(found)]


def add_report(place: Path, report: Report) -> None:
    """One more figure on the way."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / "reports.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(report)) + "\n")
