"""Progress of a run for people: a bar on a terminal, a line now and then elsewhere.

Everything goes to standard error; standard output belongs to results.
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

# Parts of figures that a line has no room for; the journal has them all.
_DETAILS = ("total", "HasAns", "NoAns", "thresh", "no_answer", "answerability")
Kind = Literal["rich", "plain", "quiet"]
Work = Callable[[int], float]
"""Amount done before a step: its number, unless some steps take longer than others."""


class Console(Protocol):
    """Shows rows as they come."""

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """One row: the latest losses and speed, or figures of an evaluation."""

    def part(self, title: str, done: int, total: int) -> None:
        """Work without steps, such as an evaluation: how many of its rows are done."""

    def close(self) -> None:
        """The last row stands."""


def open_console(
    kind: Kind | None, total_steps: int | None, every_seconds: float, work: Work = float
) -> Console:
    """The console of that kind; None means rich on a terminal and plain elsewhere."""
    kind = kind or ("rich" if sys.stderr.isatty() else "plain")
    if kind == "rich":
        return Bar(total_steps, RichConsole(stderr=True), work)
    if kind == "plain":
        return Lines(total_steps, every_seconds, work=work)
    return Quiet()


def summary(metrics: Mapping[str, float]) -> str:
    """``generator 7.312  1,234 tokens/s``: losses of training, speeds and evaluations in a line."""
    parts = []
    for name, value in metrics.items():
        room, _, rest = name.partition("/")
        if name.endswith("_per_second"):
            parts.append(f"{value:,.0f} {rest.removesuffix('_per_second')}/s")
        elif room == "train":
            parts.append(f"{rest} {value:.4g}")
        elif room == "eval" and not any(word in rest for word in _DETAILS):
            parts.append(f"{name} {value:.4g}")
    return "  ".join(parts)


class Quiet:
    """Shows nothing."""

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Nothing."""

    def part(self, title: str, done: int, total: int) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Lines:
    """A line at most every so many seconds; evaluations, the first and the last row always."""

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
        """A line, or a line held back until it is the last."""
        now = self._clock()
        line = self._line(step, metrics, now)
        opening = self._first is None
        self._first = self._first or (now, step)
        evaluation = any(name.startswith("eval/") for name in metrics)
        if opening or evaluation or step == self._total or now - self._last >= self._every:
            self._last, self._held = now, None
            _say(line)
        else:
            self._held = line

    def part(self, title: str, done: int, total: int) -> None:
        """A line at most every so many seconds; none for what takes less."""
        now = self._clock()
        if self._part is None or self._part[0] != title:
            self._part = (title, now, now)
        _, began, last = self._part
        if done < total and now - last >= self._every:
            seconds = (now - began) / done * (total - done) if done else None
            left = "" if seconds is None else f"  eta {timedelta(seconds=round(seconds))}"
            _say(f"{title}  {done:,}/{total:,}{left}")
            self._part = (title, began, now)
        elif done >= total:
            if last > began:
                _say(f"{title}  {total:,}/{total:,}  in {timedelta(seconds=round(now - began))}")
            self._part = None

    def close(self) -> None:
        """The line that was held back, if any."""
        if self._held:
            _say(self._held)
        self._held = None

    def _line(self, step: int, metrics: Mapping[str, float], now: float) -> str:
        of = f"/{self._total}" if self._total else ""
        line = f"step {step}{of}  {summary(metrics)}"
        if self._total and self._first and step > self._first[1]:
            done = self._work(step) - self._work(self._first[1])
            left = self._work(self._total) - self._work(step)
            line += f"  eta {timedelta(seconds=round((now - self._first[0]) / done * left))}"
        return line


class Bar:
    """A progress bar with the time left; evaluations stay above it."""

    def __init__(self, total_steps: int | None, console: RichConsole, work: Work = float) -> None:
        what = TextColumn("{task.description}", markup=False)
        steps = TextColumn("{task.fields[steps]}")
        # It alone is cut where a terminal is too narrow for all.
        cut = Column(ratio=1, no_wrap=True)
        latest = TextColumn("{task.fields[latest]}", markup=False, table_column=cut)
        columns = (what, steps, BarColumn(bar_width=24), TimeRemainingColumn(), latest)
        self._progress = Progress(*columns, console=console, expand=True)
        self._total, self._work = total_steps, work
        self._task: TaskID | None = None
        self._parts: dict[str, TaskID] = {}

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """The bar at ``step``."""
        text = summary(metrics)
        of = str(self._total or "?")
        place: dict[str, Any] = {"completed": self._work(step), "steps": f"{step:{len(of)}}/{of}"}
        if self._task is None:  # begins where a resumed run begins, or the time left is wrong
            total = self._work(self._total) if self._total else None
            self._task = self._progress.add_task("step", total=total, latest=text, **place)
            self._progress.start()
        if any(name.startswith("eval/") for name in metrics):
            self._progress.console.print(f"step {step}  {text}", markup=False, highlight=False)
            self._progress.update(self._task, **place)
        else:
            self._progress.update(self._task, latest=text, **place)

    def part(self, title: str, done: int, total: int) -> None:
        """A second bar, which goes when the part is done."""
        if title not in self._parts:
            self._parts[title] = self._progress.add_task(title, total=total, steps="", latest="")
            self._progress.start()
        self._progress.update(self._parts[title], completed=done, steps=f"{done:,}/{total:,}")
        if done >= total:
            self._progress.remove_task(self._parts.pop(title))

    def close(self) -> None:
        """The bar as it stands."""
        self._progress.stop()


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
