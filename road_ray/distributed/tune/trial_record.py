"""Record of a trial: what its process tells the driver at its end, and what the driver writes to
``trial.json`` as output. The study is the truth.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from road_ray.system.files import write_json_atomic

DIVERGED = "diverged"  # how the reason of a trial begins whose loss was not finite
ENDED = ("complete", "pruned", "failed")
TRIALS_LOCK = "trials.lock"  # shared by every process that runs trials, as long as it lives


@dataclass(frozen=True)
class Record:
    """One trial: its values, its state, its results."""

    number: int
    params: Mapping[str, Any]  # as Optuna stores them
    state: str = "running"  # or one of ENDED
    values: tuple[float, ...] = ()  # one per metric, means over seeds
    deviation: tuple[float | None, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)  # every metric, means over seeds
    reason: str = ""  # why it failed or was stopped
    seconds: float = 0.0
    teacher_seconds: float = 0.0
    origin: str = ""  # the earlier sweep of a copied trial, which no budget counts
    retry_of: int | None = None  # the failed trial whose values it tries again

    @property
    def ended(self) -> bool:
        return self.state in ENDED


@dataclass(frozen=True)
class Report:
    """An intermediate value of the first metric and the first seed."""

    step: int
    total: int  # steps of the run
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
    write_json_atomic(path_of(directory, record.number), asdict(record))


def read(directory: Path, number: int) -> Record | None:
    """Return the record of a trial, or None if there is none that can be read."""
    try:
        return from_text(path_of(directory, number).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def to_text(record: Record) -> str:
    """Return a record as JSON."""
    return json.dumps(asdict(record))


def from_text(text: str) -> Record:
    """Return the record of ``to_text``."""
    known = {field.name for field in fields(Record)}
    record = Record(**{name: value for name, value in json.loads(text).items() if name in known})
    return replace(record, values=tuple(record.values), deviation=tuple(record.deviation))


def trial_numbers(directory: Path) -> list[int]:
    """Return the numbers of the trials that have a directory."""
    paths = (directory / "trials").glob("[0-9]*")
    return sorted(int(path.name) for path in paths if path.name.isdecimal())
