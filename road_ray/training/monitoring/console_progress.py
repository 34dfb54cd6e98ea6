"""Progress of a run: a bar on a terminal, periodic lines elsewhere.

Everything is written to standard error; standard output is for results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Literal, Protocol

from rich.console import Console as RichConsole
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column

# Figures whose names contain these parts are not shown; the journal has them.
_DETAILS = ("total", "HasAns", "NoAns", "thresh", "no_answer", "answerability")
_FURTHER = 4  # figures of a training beside loss and speed
Kind = Literal["rich", "plain", "quiet"]
Work = Callable[[int], float]
"""Amount of work done before a step: its number, unless some steps take longer than others."""


class Console(Protocol):
    """Protocol of consoles, which show rows and progress."""

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show a row: the latest losses and speed, or figures of an evaluation."""

    def part(self, title: str, done: int, total: int) -> None:
        """Show the progress of work without steps, such as an evaluation."""

    def close(self) -> None:
        """End the output; the last row stays visible."""


def open_console(
    kind: Kind | None, total_steps: int | None, every_seconds: float, work: Work = float
) -> Console:
    """Return the console of a kind; None means rich on a terminal and plain elsewhere."""
    kind = kind or ("rich" if sys.stderr.isatty() else "plain")
    if kind == "rich":
        return Bar(total_steps, RichConsole(stderr=True), work)
    if kind == "plain":
        return Lines(total_steps, every_seconds, work=work)
    return Quiet()


def summary(metrics: Mapping[str, float]) -> str:
    """Return the loss, the speed, at most four further figures of the training, and evaluations in
    a line: ``generator 7.312  1,234 tokens/s  detector 0.21``; the journal has the rest.
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


class Quiet:
    """Console that shows nothing."""

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Do nothing."""

    def part(self, title: str, done: int, total: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Lines:
    """Console that writes at most one line every ``every_seconds``, and always the first row, the
    last row and evaluations.
    """

    def __init__(
        self,
        total_steps: int | None,
        every_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        work: Work = float,
    ) -> None:
        self._total, self._every, self._clock = total_steps, every_seconds, clock
        self._work = work
        self._first: tuple[float, int] | None = None
        self._last = 0.0
        self._held: str | None = None
        self._part: tuple[str, float, float] | None = None  # title, begun, last line

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write a line, or hold it back until it is due or the last."""
        now = self._clock()
        line = self._line(step, metrics, now)
        opening = self._first is None
        self._first = self._first or (now, step)
        evaluation = any(name.startswith("eval/") for name in metrics)
        if opening or evaluation or step == self._total or now - self._last >= self._every:
            self._last, self._held = now, None
            _write(line)
        else:
            self._held = line

    def part(self, title: str, done: int, total: int) -> None:
        """Write a line at most every ``every_seconds``; none for shorter work."""
        now = self._clock()
        if self._part is None or self._part[0] != title:
            self._part = (title, now, now)
        _, began, last = self._part
        if done < total and now - last >= self._every:
            seconds = (now - began) / done * (total - done) if done else None
            eta = "" if seconds is None else f"  eta {timedelta(seconds=round(seconds))}"
            _write(f"{title}  {done:,}/{total:,}{eta}")
            self._part = (title, began, now)
        elif done >= total:
            if last > began:
                _write(f"{title}  {total:,}/{total:,}  in {timedelta(seconds=round(now - began))}")
            self._part = None

    def close(self) -> None:
        """Write the line that was held back, if any."""
        if self._held:
            _write(self._held)
        self._held = None

    def _line(self, step: int, metrics: Mapping[str, float], now: float) -> str:
        of = f"/{self._total}" if self._total else ""
        line = f"step {step}{of}  {summary(metrics)}"
        if self._total and self._first and step > self._first[1]:
            done = self._work(step) - self._work(self._first[1])
            work_left = self._work(self._total) - self._work(step)
            line += f"  eta {timedelta(seconds=round((now - self._first[0]) / done * work_left))}"
        return line


class Bar:
    """Console with a progress bar and the time left; evaluations are printed above it."""

    def __init__(self, total_steps: int | None, console: RichConsole, work: Work = float) -> None:
        description = TextColumn("{task.description}", markup=False)
        steps = TextColumn("{task.fields[steps]}")
        # Only this column is cut if the terminal is too narrow.
        cut = Column(ratio=1, no_wrap=True)
        latest = TextColumn("{task.fields[latest]}", markup=False, table_column=cut)
        columns = (description, steps, BarColumn(bar_width=24), TimeRemainingColumn(), latest)
        self._progress = Progress(*columns, console=console, expand=True)
        self._total, self._work = total_steps, work
        self._task: TaskID | None = None
        self._parts: dict[str, TaskID] = {}

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show the bar at ``step``."""
        text = summary(metrics)
        of = str(self._total or "?")
        place: dict[str, Any] = {"completed": self._work(step), "steps": f"{step:{len(of)}}/{of}"}
        if self._task is None:  # starts at the first step of a resumed run, for the time left
            total = self._work(self._total) if self._total else None
            self._task = self._progress.add_task("step", total=total, latest=text, **place)
            self._progress.start()
        if any(name.startswith("eval/") for name in metrics):
            self._progress.console.print(f"step {step}  {text}", markup=False, highlight=False)
            self._progress.update(self._task, **place)
        else:
            self._progress.update(self._task, latest=text, **place)

    def part(self, title: str, done: int, total: int) -> None:
        """Show a second bar, which is removed when the part is done."""
        if title not in self._parts:
            self._parts[title] = self._progress.add_task(title, total=total, steps="", latest="")
            self._progress.start()
        self._progress.update(self._parts[title], completed=done, steps=f"{done:,}/{total:,}")
        if done >= total:
            self._progress.remove_task(self._parts.pop(title))

    def close(self) -> None:
        """Stop the bar."""
        self._progress.stop()


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
