"""Comparison page: groups of seeds with mean, deviation, a paired test and published results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from road_ray.errors import ConfigError, did_you_mean, shorten
from road_ray.evaluation.seed_statistics import (
    PairedTest,
    is_significant,
    paired_test,
    summary,
)
from road_ray.reporting.health import loss_names
from road_ray.reporting.pages.page import (
    NOTHING,
    Block,
    Cell,
    Figures,
    Page,
    Prose,
    Section,
    State,
    Table,
    Value,
    Verdict,
    filled,
    link_to,
    setting,
)
from road_ray.reporting.pages.run_page import clock, headline
from road_ray.reporting.plots.chart import Axis, Chart, Intervals, Line, thinned
from road_ray.reporting.published_results import published
from road_ray.reporting.records.run_groups import Group, group_runs, is_decisive
from road_ray.reporting.records.run_record import RunRecord
from road_ray.reporting.text_tables import metric_title, with_deviation

_MOST_GROUPS = 40
_MOST_VERDICTS = 8
_MOST_COLUMNS = 5  # of figures in the table of runs: those that most runs have


def compare_page(
    runs: Sequence[RunRecord],
    title: str,
    baseline: str | None = None,
    place: Path | None = None,
) -> Page:
    """Return the page that compares groups with the one named ``baseline`` or of the run with that
    name, or with the default one. ``place`` is the directory of the page, for links to the pages of
    the runs.

    Raises ``ConfigError`` unless ``baseline`` leads to one group.
    """
    groups = group_runs(runs)
    base = _default_baseline(groups) if baseline is None else _named(groups, baseline)
    metrics = list(dict.fromkeys(name for run in runs for name in headline(run.metrics)))
    datasets = dict.fromkeys(name.split("/")[1] for name in metrics)
    sections = [
        Section(f"Results on {dataset}", _results(groups, base, dataset, metrics))
        for dataset in datasets
    ]
    sections += [
        Section("Differences", [_settings(groups)], "Settings that differ between groups."),
        Section("Curves", [Figures(_curves(groups))], "Mean over the seeds of each group."),
        Section("Runs", [runs_table(runs, place)], "Click a heading to sort."),
    ]
    return Page(
        title=title,
        about=f"{len(runs)} runs in {len(groups)} groups; runs that differ only in their seed "
        "form one group.",
        kicker="road report",
        sections=filled(sections),
    )


def _default_baseline(groups: Sequence[Group]) -> Group:
    """Return the default baseline: the group trained without teachers, else the first."""
    plain = [group for group in groups if re.search(r"\b(none|no-kd|baseline|plain)$", group.name)]
    return (plain or list(groups))[0]


def _named(groups: Sequence[Group], name: str) -> Group:
    """Return the group of a name, or else the one that has a run of that name."""
    matching = [group for group in groups if group.name == name] or [
        group for group in groups if any(run.name == name for run in group.runs)
    ]
    if len(matching) == 1:
        return matching[0]
    names = [group.name for group in groups]
    hint = did_you_mean(name, [*names, *(run.name for group in groups for run in group.runs)])
    problem = f"{len(matching)} groups have such a run" if matching else f"no such group{hint}"
    raise ConfigError(
        f"--baseline {name}: {problem}\n  allowed: {shorten(', '.join(names), 1000)}\n"
        "  fix: name a group, or a run of one; nothing was written"
    )


def _results(
    groups: Sequence[Group], base: Group, dataset: str, metrics: Sequence[str]
) -> list[Block]:
    shown = [name for name in metrics if name.split("/")[1] == dataset]
    titles = [metric_title(metric.rsplit("/", 1)[-1]) for metric in shown]
    rows = [_row(group, base, shown) for group in groups]
    rows = [row for row in rows if any(cell.value is not None for cell in row[2:])]
    note = (
        f"Mean ± standard deviation over seeds; below it the mean difference from {base.name} and "
        "the p value of a paired t-test over shared seeds, not corrected for the number of "
        "comparisons; bold where p < 0.05. Two or three seeds reveal only large differences."
    )
    verdicts = [verdict(group, base, shown[0]) for group in groups[:_MOST_VERDICTS]]
    blocks: list[Block] = [
        Verdict([line for line in verdicts if line is not None]),
        Figures([figure for metric in shown if (figure := intervals(groups, metric)) is not None]),
        Table(["", "seeds", *titles], rows, note=note if len(rows) > 1 else ""),
    ]
    limits = dict.fromkeys(limit for group in groups for run in group.runs for limit in run.limits)
    printed = _printed(dataset, shown)
    if printed and limits:
        blocks.append(Prose([f"Not comparable with published results: {', '.join(limits)}."]))
    elif printed:
        papers = f"published results: {len(printed)} models"
        blocks.append(Table(["model", "source", *titles], printed, folded=papers))
    return blocks


def intervals(groups: Sequence[Group], metric: str, title: str = "") -> Intervals | None:
    """Return the figure of each group's mean with its deviation over seeds; None for one group."""
    rows = []
    for group in groups[:_MOST_GROUPS]:
        if values := list(group.scores(metric).values()):
            spread = summary(values)
            mean, deviation = spread.mean, spread.deviation
            ends = None if deviation is None else (mean - deviation, mean + deviation)
            rows.append((group.name, mean, ends, values))
    _, dataset, name = metric.split("/", 2)
    note = "Mean with one standard deviation over seeds; circles are single runs."
    title = title or f"{dataset}: {metric_title(name)}"
    return Intervals(title, rows, note) if len(rows) > 1 else None


def verdict(group: Group, base: Group, metric: str) -> tuple[str, State] | None:
    """Return the result of a group against the baseline in a sentence; None for the baseline, or
    without two seeds in common.
    """
    test = None if group is base else paired_against(group, base, metric)
    if test is None:
        return None
    title = metric_title(metric.rsplit("/", 1)[-1])
    gap = f"{test.difference:+.2f} {title}"
    if test.p_value is None:
        return f"{group.name}: {gap} against {base.name} for every seed alike.", "plain"
    known = f"{gap}, {_p_value(test)}, paired t-test over {test.pairs} seeds"
    if not is_significant(test.p_value):
        text = f"{group.name}: no difference from {base.name} at {test.pairs} seeds ({known})."
        return text, "plain"
    better = test.difference > 0
    word = "better" if better else "worse"
    return f"{group.name}: {word} than {base.name} ({known}).", "good" if better else "bad"


def _row(group: Group, base: Group, metrics: Sequence[str]) -> list[Cell]:
    row = [Cell(group.name), Cell(f"{len({run.settings.get('seed') for run in group.runs})}")]
    for metric in metrics:
        scores = group.scores(metric)
        if not scores:
            row.append(NOTHING)
            continue
        spread = summary(list(scores.values()))
        text = with_deviation(spread.mean, spread.deviation)
        against, strong = _against(group, base, metric)
        row.append(Cell(text, spread.mean, strong, against))
    return row


def _against(group: Group, base: Group, metric: str) -> tuple[str, bool]:
    """Return the difference from the baseline in words, and True if it is significant."""
    if group is base:
        return "", False
    test = paired_against(group, base, metric)
    if test is None:
        scores, base_scores = group.scores(metric), base.scores(metric)
        if not scores or not base_scores:
            return "", False
        gap = summary(list(scores.values())).mean - summary(list(base_scores.values())).mean
        return f"{gap:+.2f}, no two seeds in common", False
    text = f"{test.difference:+.2f}, {_p_value(test)}, n = {test.pairs}"
    return text, is_significant(test.p_value)


def _p_value(test: PairedTest) -> str:
    if test.p_value is None:
        return "equal for every seed"
    return f"p = {test.p_value:.3f}" if test.p_value >= 0.001 else "p < 0.001"


def paired_against(group: Group, base: Group, metric: str) -> PairedTest | None:
    """Return the paired test over the seeds that both groups share, or None with fewer than two."""
    scores, base_scores = group.scores(metric), base.scores(metric)
    shared = [seed for seed in scores if seed in base_scores]
    if len(shared) < 2:
        return None
    return paired_test([scores[seed] for seed in shared], [base_scores[seed] for seed in shared])


def _printed(dataset: str, metrics: Sequence[str]) -> list[list[Cell]]:
    """Return rows of published results, one per model, in the columns of the metrics."""
    columns = [
        {(p.model, p.source): p.value for p in published(dataset, m.rsplit("/", 1)[-1])}
        for m in metrics
    ]
    models = list(dict.fromkeys(model for column in columns for model in column))
    rows = []
    for model in models:
        row = [Cell(model[0]), Cell(model[1])]
        for column in columns:
            value = column.get(model)
            row.append(NOTHING if value is None else Cell(f"{value:.2f}", value))
        rows.append(row)
    return rows


def _settings(groups: Sequence[Group]) -> Table:
    tables = [group.runs[0].settings for group in groups[:_MOST_GROUPS]]
    keys = list(dict.fromkeys(key for table in tables for key in table if is_decisive(key)))
    varied = [key for key in keys if len({str(table.get(key)) for table in tables}) > 1]
    varied.sort(key=lambda key: any(table.get(key) is None for table in tables))
    rows: list[Sequence[Value | Cell]] = [
        [key, *(Cell(_short(table.get(key))) for table in tables)] for key in varied
    ]
    return Table(["", *(group.name for group in groups[:_MOST_GROUPS])], rows)


def _short(value: object) -> str:
    if isinstance(value, list | tuple) and len(str(value)) > 40:
        return f"{len(value)} values" if len(value) > 1 else _short(value[0])
    if isinstance(value, str) and "/" in value and len(value) > 40:
        return "…/" + "/".join(Path(value).parts[-2:])
    return setting(value)


def _curves(groups: Sequence[Group]) -> list[Chart]:
    names = dict.fromkeys(n for group in groups for run in group.runs for n in loss_names(run)[:2])
    charts = []
    for name in list(names)[:9]:
        lines = [
            Line(thinned(points), group.name, number)
            for number, group in enumerate(groups[:8])
            if len(points := _mean_curve(group, name)) > 1
        ]
        if lines:
            title = f"Loss: {name.removeprefix('train/')} (nats)"
            charts.append(Chart(title, Axis("step"), Axis(), lines=lines))
    return charts


def _mean_curve(group: Group, name: str) -> list[tuple[float, float]]:
    """Return the mean over seeds at every step that all of them recorded."""
    series: list[Mapping[float, float]] = [dict(run.series(name)) for run in group.runs]
    series = [points for points in series if points]
    shared = [step for step in (series[0] if series else ()) if all(step in s for s in series)]
    return [(step, sum(s[step] for s in series) / len(series)) for step in shared]


def runs_table(runs: Sequence[RunRecord], place: Path | None = None) -> Table:
    """Return the table of single runs; their names link to their pages."""
    known = Counter(name for run in runs for name in headline(run.metrics))
    metrics = [name for name, _ in known.most_common(_MOST_COLUMNS)]
    shown = [f"{m.split('/')[1]} {metric_title(m.rsplit('/', 1)[-1])}" for m in metrics]
    rows: list[Sequence[Value | Cell]] = [
        [
            Cell(run.name, link=link_to(run.directory / "report.html", place)),
            run.verb if run.finished else f"{run.verb}, not finished",
            run.settings.get("seed"),
            run.steps,
            Cell(clock(run.seconds), run.seconds) if run.seconds else None,
            *(run.metrics.get(metric) for metric in metrics),
        ]
        for run in runs
    ]
    return Table(["run", "verb", "seed", "steps", "time", *shown], rows, live=True)
