"""Journal of a run: metrics.jsonl (the source of truth), events.jsonl, metrics.json. Its progress
is on standard error, in periodic lines.

A file is closed behind each row, so that a kill loses at most the line being written.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from road_ray.config.secrets import redact
from road_ray.errors import ConfigError, ResourceError
from road_ray.system.files import finite, unwritable, write_atomic, write_json_atomic
from road_ray.training.monitoring.trackers import Tracker

_log = logging.getLogger(__name__)
# Figures whose names contain these parts are not shown; the journal has them.
_DETAILS = ("total", "HasAns", "NoAns", "thresh", "no_answer", "answerability")
EVERY_SECONDS = 10.0
_FURTHER = 4  # figures of a training beside loss and speed
Kind = Literal["rich", "plain", "quiet"]


class Journal(AbstractContextManager["Journal"]):
    """Rows, events and final figures of one run directory; a context manager.

    ``enabled=False``, for workers that do not lead, writes and shows nothing. ``trackers`` are
    functions that start one, by name; what fails, now or later, is dropped with a warning and an
    event.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        console: Kind | None = None,
        trackers: Mapping[str, Callable[[], Tracker]] | None = None,
        enabled: bool = True,
        total_steps: int | None = None,
    ) -> None:
        self.run_dir, self.enabled = Path(run_dir), enabled
        kind: Kind | None = console if enabled else "quiet"
        self.console = Console(kind, total_steps)
        self._trackers: dict[str, Tracker] = {}
        for name in ("metrics.jsonl", "events.jsonl") if enabled else ():
            cut_torn_line(self.run_dir / name)
        for name, start in (trackers or {}).items() if enabled else ():
            try:
                self._trackers[name] = start()
            except ConfigError:  # not installed
                raise
            except Exception as error:
                self._drop(name, error)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write a row of numbers; a number that is not finite is written as null."""
        if not self.enabled:
            return
        row = {name: _number(value) for name, value in metrics.items()}
        self._append("metrics.jsonl", {"step": step, **row})
        self.console.show(step, row)
        for name, tracker in list(self._trackers.items()):
            try:
                tracker.log(step, row)
            except Exception as error:
                self._drop(name, error)

    def event(self, kind: str, text: str = "", *, warn: bool = False, **fields: object) -> None:
        """Write an event, such as a fault, a restart or a replaced teacher, and log its ``text``;
        secrets are masked.
        """
        if self.enabled:
            if text:
                _log.log(logging.WARNING if warn else logging.INFO, "%s", text)
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._append("events.jsonl", {"time": now, "kind": kind, **redact(fields)})

    def truncate_after(self, step: int) -> int:
        """Remove the rows after ``step``, so that a resumed run writes each step once, and an
        incomplete last line. Return the last step that had a row.
        """
        path = self.run_dir / "metrics.jsonl"
        if not self.enabled or not path.is_file():
            return 0
        rows = read_metrics(path)
        write_atomic(path, "".join(_line(row) for row in rows if row["step"] <= step))
        return max((int(row["step"]) for row in rows), default=0)

    def finish(self, metrics: Mapping[str, float]) -> None:
        """Write metrics.json with the final figures."""
        if self.enabled:
            final = {name: _number(value) for name, value in metrics.items()}
            write_json_atomic(self.run_dir / "metrics.json", final)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the trackers, which are told if the block failed."""
        for name, tracker in list(self._trackers.items()):
            try:
                tracker.close(kind is not None)
            except Exception as error:
                self._drop(name, error)
        self._trackers = {}

    def _drop(self, name: str, error: Exception) -> None:
        self._trackers.pop(name, None)
        text = f"tracker {name} failed and is left out from here on: {error}"
        self.event("tracker_failed", text, warn=True, tracker=name, error=str(error))

    def _append(self, name: str, row: Mapping[str, object]) -> None:
        path = self.run_dir / name
        try:
            self.run_dir.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(_line(row))
        except OSError as error:
            raise unwritable(path, error, "all rows before this one") from error


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON-lines file, without an incomplete last line.

    Raises ``ResourceError`` for a damaged line or an unreadable file.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ResourceError(
            f"{path}: cannot be read: {error.strerror}\n    fix: make it readable, or delete it"
        ) from error
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if number == len(lines):
                break
            row = None
        if not isinstance(row, dict):
            raise _damaged(path, number, f"not a JSON object: {line[:60]!r}")
        rows.append(row)
    return rows


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a metrics.jsonl: ``step`` and figures, each a number or None.

    Raises ``ResourceError`` for another line.
    """
    rows = read_rows(path)
    for number, row in enumerate(rows, start=1):
        if type(row.get("step")) is not int:
            raise _damaged(path, number, f"step = {row.get('step')!r} is not a whole number")
        for name, value in row.items():
            if type(value) not in (int, float, type(None)):
                raise _damaged(path, number, f"{name} = {str(value)[:60]!r} is not a number")
    return rows


def _damaged(path: Path, number: int, problem: str) -> ResourceError:
    return ResourceError(f"{path}:{number}: {problem}\n    fix: delete that line")


def cut_torn_line(path: Path) -> None:
    """Truncate a file after its last complete line, so that the next row starts a line."""
    if not path.is_file():
        return
    content = path.read_bytes()
    complete = content.rfind(b"\n") + 1
    if complete < len(content):
        os.truncate(path, complete)


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(finite(row), default=str, allow_nan=False) + "\n"


def _number(value: Any) -> float:
    """Return a number, tensor or NumPy scalar as a plain int or float."""
    return value if type(value) in (int, float) else float(value)


@dataclass
class Console:
    """Lines on standard error: the first, the last, evaluations, one every ``EVERY_SECONDS``."""

    kind: Kind | None = None
    total_steps: int | None = None
    # By title: the time and the part done at the start, and the time of the last line.
    _shown: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show a row: the latest losses and speed, or figures of an evaluation."""
        of = f"/{self.total_steps}" if self.total_steps else ""
        now = any(name.startswith("eval/") for name in metrics)
        now = now or step == self.total_steps or "step" not in self._shown
        self._move("step", step, self.total_steps, f"{step}{of}", summary(metrics), now=now)

    def part(self, title: str, done: int, total: int) -> None:
        """Show the progress of work without steps, such as an evaluation, if it is long."""
        self._move(title, done, total, f"{done:,}/{total:,}", "", now=False)
        if done >= total:
            del self._shown[title]

    def _move(
        self, title: str, done: float, total: float | None, steps: str, text: str, *, now: bool
    ) -> None:
        """Write a line if it is due or wanted ``now``."""
        at = time.monotonic()
        began, first, last_line = self._shown.setdefault(title, (at, done, at))
        due = now or at - last_line >= EVERY_SECONDS
        if self.kind == "quiet" or not due:
            return
        self._shown[title] = (began, first, at)
        parts = [f"{title} {steps}", text]
        if total is not None and first < done < total:
            seconds = (at - began) / (done - first) * (total - done)
            parts.append(f"eta {timedelta(seconds=round(seconds))}")
        sys.stderr.write("  ".join(filter(None, parts)) + "\n")
        sys.stderr.flush()


def summary(metrics: Mapping[str, float]) -> str:
    """Return the loss, the speed, at most four further figures of the training, and evaluations in
    a line: ``generator 7.312  1,234 tokens/s  discriminator 0.21``; the journal has the
    rest.
    """
    training, speed, evaluations = [], [], []
    for name, value in metrics.items():
        group, _, rest = name.partition("/")
        if name.endswith("_per_second"):
            speed.append(f"{value:,.0f} {rest.removesuffix('_per_second')}/s")
        elif group == "train":
            training.append(f"{rest} {value:.4g}")
        elif group == "eval" and not any(word in rest for word in _DETAILS):
            evaluations.append(f"{name} {value:.4g}")
    parts = [*training[:1], *speed[:1], *training[1 : 1 + _FURTHER], *evaluations]
    return "  ".join(parts)
