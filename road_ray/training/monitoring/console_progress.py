"""Progress of a run: a bar on a terminal, periodic lines elsewhere.

Everything is written to standard error; standard output is for results.
"""

import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from rich.console import Console as RichConsole
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

# Figures whose names contain these parts are not shown; the journal has them.
_DETAILS = ("total", "HasAns", "NoAns", "thresh", "no_answer", "answerability")
EVERY_SECONDS = 10.0
_FURTHER = 4  # figures of a training beside loss and speed
Kind = Literal["rich", "plain", "quiet"]


class Console:
    """Bars (``rich``), lines (``plain``: the first, the last, evaluations, and one every
    ``EVERY_SECONDS``) or nothing (``quiet``). None: ``rich`` on a terminal and ``plain`` elsewhere.
    """

    def __init__(self, kind: Kind | None = None, total_steps: int | None = None) -> None:
        self._kind = kind or ("rich" if sys.stderr.isatty() else "plain")
        self._total = total_steps
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[steps]}"),
            BarColumn(bar_width=24),
            TimeRemainingColumn(),
            # Only this column is cut if the terminal is too narrow.
            TextColumn(
                "{task.fields[text]}", markup=False, table_column=Column(ratio=1, no_wrap=True)
            ),
            console=RichConsole(stderr=True),
            expand=True,
        )
        self._bars: dict[str, TaskID] = {}
        self._started: dict[str, tuple[float, float]] = {}  # time and part done, by title
        self._last_line: dict[str, float] = {}

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show a row: the latest losses and speed, or figures of an evaluation."""
        text: str | None = summary(metrics)
        of = f"/{self._total}" if self._total else ""
        evaluation = any(name.startswith("eval/") for name in metrics)
        now = evaluation or step == self._total or "step" not in self._started
        if evaluation and self._kind == "rich":
            line = f"step {step}  {text}"
            self._progress.console.print(line, markup=False, highlight=False)
            text = None
        self._move("step", step, self._total, f"{step}{of}", text, now=now)

    def part(self, title: str, done: int, total: int) -> None:
        """Show the progress of work without steps, such as an evaluation; a line only if long."""
        self._move(title, done, total, f"{done:,}/{total:,}", "", now=False)
        if done >= total:
            del self._started[title]
            self._last_line.pop(title, None)
            if title in self._bars:
                self._progress.remove_task(self._bars.pop(title))

    def close(self) -> None:
        """Stop the bars; they stay visible."""
        if self._kind == "rich":
            self._progress.stop()

    def _move(
        self,
        title: str,
        done: float,
        total: float | None,
        steps: str,
        text: str | None,
        *,
        now: bool,
    ) -> None:
        """Move the bar of ``title``, or write a line if it is due or wanted ``now``. Without
        ``text``, a bar keeps its own.
        """
        at = time.monotonic()
        began, first = self._started.setdefault(title, (at, done))
        if self._kind == "rich":
            if title not in self._bars:
                self._bars[title] = self._progress.add_task(title, total=total, steps="", text="")
                self._progress.start()
            fields: dict[str, Any] = {"steps": steps} | ({} if text is None else {"text": text})
            self._progress.update(self._bars[title], completed=done, **fields)
        elif self._kind == "plain" and (
            now or at - self._last_line.setdefault(title, at) >= EVERY_SECONDS
        ):
            self._last_line[title] = at
            parts = [f"{title} {steps}", text]
            if total is not None and done > first:
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
