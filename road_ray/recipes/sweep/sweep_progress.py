"""Progress of a sweep: a live table on a terminal, otherwise a line per change.

Everything is written to standard error; standard output is for results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from road_ray.distributed.tune.driver import SweepObserver
from road_ray.distributed.tune.trial_record import Record, Report
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.result import best_of

_MOST_ROWS = 20  # of a table on a terminal
_MARKS = {"running": "cyan", "complete": "green", "pruned": "yellow", "failed": "red"}


class SweepProgress:
    """State of a sweep and its rendering."""

    def __init__(self, config: SweepConfig) -> None:
        self.config = config
        self.trials: dict[int, Record] = {}
        self.latest: dict[int, Report] = {}

    def changed(self, record: Record) -> None:
        """Update a trial that has started or ended."""
        self.trials[record.number] = record

    def reported(self, number: int, report: Report) -> None:
        """Update a running trial with an intermediate figure."""
        self.latest[number] = report

    def table(self) -> Table:
        """Return the table of running trials, then the best, then the rest."""
        config = self.config
        table = Table(title=self.headline(), title_justify="left", box=None, pad_edge=False)
        for name in ("trial", "state", "at", *config.metric, *config.space):
            table.add_column(name, no_wrap=True)
        best = {trial.number for trial in best_of(list(self.trials.values()), config.mode)}
        for trial in sorted(self.trials.values(), key=self._rank)[:_MOST_ROWS]:
            style = "bold " if trial.number in best else ""
            table.add_row(*self._cells(trial), style=style + _MARKS[trial.state])
        hidden = len(self.trials) - _MOST_ROWS
        if hidden > 0:
            table.caption = f"and {hidden} more"
        return table

    def headline(self) -> str:
        """Return a summary: ``weighted_kd: 5 of 32 trials, 2 running, 1 failed; best 81.2 (trial
        3)``.
        """
        states = [trial.state for trial in self.trials.values() if not trial.origin]
        parts = [f"{sum(state != 'running' for state in states)} of {self.config.trials} trials"]
        for state in ("running", "pruned", "failed"):
            if count := states.count(state):
                parts.append(f"{count} {state}")
        best = best_of(list(self.trials.values()), self.config.mode)
        if best:
            values = ", ".join(f"{value:.4g}" for value in best[0].values)
            parts.append(f"best {values} (trial {best[0].number})")
        return f"{self.config.name}: {', '.join(parts)}"

    def line(self, record: Record) -> str:
        """Return a line that describes a change."""
        values = "".join(f" {value:.4g}" for value in record.values)
        reason = f" ({record.reason.splitlines()[0]})" if record.reason else ""
        drawn = " ".join(f"{key}={_short(value)}" for key, value in record.params.items())
        details = drawn if record.state == "running" else f"{drawn}; {self.headline()}"
        return f"trial {record.number} {record.state}{values}{reason}  {details}"

    def _rank(self, trial: Record) -> tuple[int, float, int]:
        if trial.state == "running":
            return (0, 0.0, trial.number)
        sign = -1.0 if self.config.mode[0] == "max" else 1.0
        value = sign * trial.values[0] if trial.values else 0.0
        return (1 if trial.state == "complete" else 2, value, trial.number)

    def _cells(self, trial: Record) -> list[str]:
        report = self.latest.get(trial.number)
        at = f"{report.percent:.0f}%" if report and trial.state in ("running", "pruned") else ""
        values = [f"{value:.4g}" for value in trial.values]
        if not values and report is not None:
            values = [f"{report.value:.4g}"]
        values += [""] * (len(self.config.metric) - len(values))
        drawn = [_short(trial.params.get(key, "")) for key in self.config.space]
        return [str(trial.number), trial.state, at, *values, *drawn]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def show_progress(config: SweepConfig) -> Iterator[SweepObserver]:
    """Yield an observer that shows a live table, lines, or nothing."""
    progress = SweepProgress(config)
    kind = config.console or ("rich" if sys.stderr.isatty() else "plain")
    if kind == "rich":
        with Live(progress.table(), console=Console(stderr=True), auto_refresh=False) as live:

            def tick() -> None:
                live.update(progress.table(), refresh=True)

            yield SweepObserver(progress.changed, progress.reported, tick)
            tick()
        return
    earlier = {"count": 0}

    def changed(record: Record) -> None:
        known = progress.trials.get(record.number)
        progress.changed(record)
        if kind == "plain" and (known is None or known.state != record.state):
            earlier["count"] += 1
            sys.stderr.write(progress.line(record) + "\n")
            sys.stderr.flush()

    yield SweepObserver(changed, progress.reported)
