"""Page of a sweep: the best trials, figures, and a sortable table of all trials."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from road_ray.reporting.pages.page import (
    NOTHING,
    Block,
    Cell,
    Figures,
    Folded,
    Page,
    Prose,
    Section,
    Table,
    Value,
    Verdict,
    cell,
    filled,
)
from road_ray.reporting.pages.run_page import clock
from road_ray.reporting.records.sweep_record import Sweep, Trial
from road_ray.reporting.sweep_noise import tie
from road_ray.reporting.sweep_plots import SweepPlots


def sweep_page(sweep: Sweep) -> Page:
    """Return the page of a sweep."""
    drawn = SweepPlots(sweep)
    blocks: list[Block] = [Figures(drawn.all())]
    if absent := drawn.absent():
        blocks.append(Prose([absent]))
    sections = [
        Section("Best", _best(sweep)),
        Section(
            "Figures",
            blocks,
            "Hover over a trial to highlight it in all figures; click to go to its row.",
        ),
        Section(
            "Trials",
            [_table(sweep)],
            "Click a heading to sort. Filter by words, or by column: “complete trial<5” shows "
            "complete trials with a number below 5, here and in the figures.",
        ),
        Section("Failures", _failures(sweep)),
        Section("Set-up", _setup(sweep)),
    ]
    return Page(
        title=sweep.name,
        about=_about(sweep),
        kicker="road sweep",
        tiles=_tiles(sweep),
        sections=filled(sections),
    )


def _about(sweep: Sweep) -> str:
    aims = " and ".join(
        f"{'highest' if up else 'lowest'} {metric}"
        for metric, up in zip(sweep.metrics, sweep.larger, strict=True)
    )
    keys = "one key" if len(sweep.params) == 1 else f"{len(sweep.params)} keys"
    return f"Search for the {aims} over {keys}."


def _tiles(sweep: Sweep) -> list[tuple[str, str, str]]:
    states = Counter(trial.state for trial in sweep.trials)
    rest = ", ".join(f"{count:,} {state}" for state, count in states.items() if state != "complete")
    tiles = [
        ("trials", f"{len(sweep.trials):,}", f"{states['complete']:,} complete, {rest}".strip(", "))
    ]
    if sweep.best and len(sweep.metrics) == 1:
        best = sweep.best[0]
        remark = "no difference between the trials" if tie(sweep) else f"trial {best.number}"
        name = sweep.metrics[0].removeprefix("eval/").replace("/", " ")
        tiles.append((f"best {name}", _value(best, 0), remark))
    elif sweep.best:
        tiles.append(
            ("on the Pareto front", str(len(sweep.best)), "no trial is better in all metrics")
        )
    spent = sum(trial.seconds or 0.0 for trial in sweep.trials)
    if spent:
        tiles.append(("time in trials", clock(spent), "sum over trials"))
    return tiles


def _value(trial: Trial, which: int) -> str:
    """Return a value with its deviation over seeds, if there are several: ``61.25 ± 0.40``."""
    text = cell(trial.values[which]).text
    deviation = trial.deviations[which] if which < len(trial.deviations) else None
    return text if deviation is None else f"{text} ± {cell(deviation).text}"


def _best(sweep: Sweep) -> list[Block]:
    if not sweep.best:
        return [Prose(["No trial is complete yet."])]
    tied = tie(sweep) if len(sweep.metrics) == 1 else ""
    ranked = sorted(sweep.judged, key=lambda t: t.values[0], reverse=sweep.larger[0])
    chosen = (
        ranked[:5] if len(sweep.metrics) == 1 else sorted(sweep.best, key=lambda t: t.values[0])
    )
    rows: list[Sequence[Value | Cell]] = [
        [
            Cell(str(trial.number)),
            *(Cell(_value(trial, n), v, n == 0 and not tied) for n, v in enumerate(trial.values)),
            *(trial.params.get(key) for key in sweep.params),
        ]
        for trial in chosen[:20]
    ]
    note = ""
    if len(sweep.metrics) == 1 and len(sweep.judged) > 3:
        note = (
            "The best of many trials is partly luck. Run it again with other seeds "
            "before you compare it with other results."
        )
    table = Table(["trial", *sweep.metrics, *sweep.params], rows, note=note)
    return [Verdict([(tied, "plain")]), table] if tied else [table]


def _table(sweep: Sweep) -> Table:
    rows = []
    for trial in sweep.trials:
        values = [Cell(_value(trial, n), v) for n, v in enumerate(trial.values)]
        values += [NOTHING] * (len(sweep.metrics) - len(values))
        seconds = None if trial.seconds is None else Cell(clock(trial.seconds), trial.seconds)
        params = [trial.params.get(key) for key in sweep.params]
        rows.append([trial.number, trial.state, *values, *params, seconds])
    names = ["trial", "state", *sweep.metrics, *sweep.params, "time"]
    return Table(names, rows, live=True, trials=[trial.number for trial in sweep.trials])


def _setup(sweep: Sweep) -> list[Block]:
    settings = json.dumps(sweep.settings, indent=2, default=str)
    return [Folded("sweep", settings)] if sweep.settings else []


def _failures(sweep: Sweep) -> list[Block]:
    rows: list[Sequence[Value | Cell]] = []
    for trial in sweep.trials:
        reason = str(trial.attributes.get("reason") or "")
        if trial.state == "failed" or (reason and trial.state != "pruned"):
            params = ", ".join(f"{k}={cell(v).text}" for k, v in trial.params.items())
            rows.append(
                [trial.number, trial.state, reason.splitlines()[0] if reason else None, params]
            )
    return [Table(["trial", "state", "reason", "parameters"], rows)] if rows else []
