"""Page of a comparison: arms with intervals, tests, published metrics, curves and runs.

An experiment (``road reproduce``) has the table of its arms as ``table.json``; of other runs the
groups that differ in their seed only are the arms.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from road_ray.errors import counted, first_line
from road_ray.evaluation.seed_statistics import is_significant
from road_ray.reporting.health import loss_names
from road_ray.reporting.pages.page import (
    NOTHING,
    Block,
    Cell,
    Page,
    Row,
    Section,
    Table,
    cell,
    filled,
    setting,
)
from road_ray.reporting.pages.run_page import headline
from road_ray.reporting.plots import SERIES, Plot, add_legend, intervals, new_plot
from road_ray.reporting.records.comparison_table import (
    Arm,
    ComparisonTable,
    Groups,
    Score,
    group_runs,
    is_decisive,
    published_line,
    read_table,
    table_of_groups,
)
from road_ray.reporting.records.run_record import RunRecord, read_run, runs_below
from road_ray.reporting.text_tables import aligned, duration, metric_title, probability

_MOST_GROUPS = 40
_ABOUT_TESTS = (
    "Mean difference with its 95% interval, paired by seed, without seeds that a group has twice; "
    "p of the paired t-test, and corrected for all tests of a data set (Holm), undefined if the "
    "difference is equal for every seed; effect size: mean difference over its standard deviation; "
    "seeds that a test needs for a power of 80% if the effect is as large as measured. Bold: "
    "corrected p < 0.05. Two or three seeds reveal only large differences."
)
_ABOUT_TEACHERS = (
    "All students of a comparison share their teachers, so the intervals do not include the "
    "variation between teachers."
)
_ABOUT_RIGHT = "Share of labelled training rows on which so many teachers were right."


def compare_page(runs: Sequence[RunRecord], title: str) -> Page:
    """Return the page that compares groups with that trained without teachers, else the first."""
    groups = group_runs(runs)
    plain = [name for name in groups if re.search(r"\b(none|no-kd|baseline|plain)$", name)]
    base = (plain or [*groups])[0]
    metrics = list(dict.fromkeys(name for run in runs for name in headline(run.metrics)))
    about = f"{counted(len(runs), 'run')} in {counted(len(groups), 'group')}; runs that differ only"
    table = table_of_groups(title, f"{about} in their seed form one group.", groups, base, metrics)
    return Page(title, table.about, "road report", (), _sections(table, runs, groups))


def experiment_page(directory: Path) -> Page:
    """Return the page of an experiment, from its table and the runs below it.

    Raises ``CheckpointError`` for a damaged table.
    """
    table = read_table(directory)
    runs = [read_run(path) for path in runs_below(directory)]
    about = f"{table.about[0].upper()}{table.about[1:]}. Published: {table.source}."
    title = table.comparison.replace("_", " ")
    return Page(title, about, "comparison", (), _sections(table, runs, {}))


def _sections(table: ComparisonTable, runs: Sequence[RunRecord], groups: Groups) -> list[Section]:
    """Return the sections of a table, and of the runs that it was made from."""
    limits = list(dict.fromkeys(limit for run in runs for limit in run.limits))
    about = f"{_ABOUT_TESTS} {_ABOUT_TEACHERS}" if table.teachers else _ABOUT_TESTS
    failed = [f"{run.arm}, seed {run.seed}: {run.error}" for run in table.failed]
    scored = {name: metrics for name, metrics in table.data_sets.items() if metrics}
    return filled(
        [
            *(Section(f"Results on {name}", _results(table, name, limits)) for name in scored),
            Section("Tests", [tests_table(table), _differences(table)], about),
            Section("Right teachers", [_right(table.arms)], _ABOUT_RIGHT),
            Section("Failed runs", [failed]),
            Section("Differences", [_settings(groups)], "Settings that differ between groups."),
            Section("Curves", [_curves(groups)], "Mean over the seeds of each group."),
            Section("Runs", [_runs_table(runs)], "Click a heading to sort."),
        ]
    )


def _results(table: ComparisonTable, name: str, limits: Sequence[str]) -> list[Block]:
    """Return the verdict on a data set, its metrics as intervals and as a table, and what papers
    report; ``limits`` are the reasons why the two cannot be compared.
    """
    metrics, plots = table.data_sets[name], []
    for metric in metrics:
        known = [(arm.about, arm.figures.get(f"{name}/{metric}")) for arm in table.arms]
        rows = [(about, f.mean, f.interval, [*f.values.values()]) for about, f in known if f]
        if len(rows) > 1:
            title = f"{name}: {metric_title(metric)}"
            note = "Mean with its 95% interval; circles are single runs."
            plots.append(intervals(title, rows[:_MOST_GROUPS], note))
    blocks: list[Block] = [_verdict(table, name), plots, arms_table(table, name)]
    lines = {metric_title(metric): published_line(name, metric) for metric in metrics}
    papers = [f"Published {title}: {line}." for title, line in lines.items() if line]
    if papers and limits:
        papers = [f"Not comparable with published results: {', '.join(limits)}."]
    if limits or not table.source:  # an experiment has those of its source beside each arm
        blocks += papers
    return blocks


def arms_table(table: ComparisonTable, name: str) -> Table:
    """Return the metrics of each arm, of single teachers and of ensembles on a data set."""
    metrics = {f"{name}/{metric}": metric_title(metric) for metric in table.data_sets[name]}
    arms = [arm for arm in [*table.arms, *table.teachers] if arm.figures.keys() & metrics.keys()]
    printed = any(figure.published for arm in arms for figure in arm.figures.values())
    sized = len({arm.parameters for arm in table.arms}) > 1
    ends = ("", ", 95%", ", published") if printed else ("", ", 95%")
    columns = ["arm", "seeds", *(f"{title}{end}" for title in metrics.values() for end in ends)]
    rows: list[Row] = []
    for arm in arms:
        cells = (cell for key in metrics for cell in _figure_cells(arm.figures.get(key), len(ends)))
        rows.append([arm.about, len(arm.seeds), *cells, *([arm.parameters] if sized else [])])
    note = "Mean ± standard deviation over seeds, and its 95% interval."
    note += " Published metrics are of large models." if printed else ""
    return Table([*columns, "parameters"] if sized else columns, rows, note=note)


def _figure_cells(figure: Score | None, count: int) -> Row:
    """Return a metric of an arm with its deviation, its interval, and the published one."""
    if figure is None:
        return [None] * count
    spread = "" if figure.deviation is None else f" ± {figure.deviation:.2f}"
    bounds = figure.interval and f"{figure.low:.2f} to {figure.high:.2f}"
    value = Cell(f"{figure.mean:.2f}{spread}", figure.mean)
    return [value, bounds, cell(figure.published, ".2f")][:count]


def _verdict(table: ComparisonTable, name: str) -> list[Cell]:
    """Return a sentence for each difference that survives the correction, or one that none does."""
    titles = {arm.name: arm.about for arm in table.arms}
    tests = [test for test in table.tests if test.data_set == name]
    lines = []
    for test in tests:
        if is_significant(test.p_holm):
            better, p_value = test.difference > 0, probability(test.p_holm or 0.0)
            text = (
                f"{titles[test.arm]} is {'better' if better else 'worse'} than "
                f"{titles[test.against]} by {abs(test.difference):.2f} {metric_title(test.metric)} "
                f"(corrected p {p_value if p_value.startswith('<') else f'= {p_value}'}, "
                f"{test.pairs} seeds)."
            )
            lines.append(Cell(text, state="good" if better else "bad"))
    none = f"No difference is significant after correction (tests: {len(tests)})."
    return (lines or [Cell(none)]) if tests else []


def tests_table(table: ComparisonTable) -> Table:
    """Return the table of all tests."""
    titles = {arm.name: arm.about for arm in table.arms}
    names = ["data set", "arm", "against", "difference", "95% interval", "p", "p (Holm)"]
    names += ["effect size", "pairs", "seeds for 80% power"]
    rows: list[Row] = [
        [
            test.data_set,
            Cell(titles[test.arm], strong=is_significant(test.p_holm)),
            titles[test.against],
            Cell(f"{test.difference:+.2f}", test.difference, strong=is_significant(test.p_holm)),
            f"{test.low:+.2f} to {test.high:+.2f}",
            *(
                NOTHING if p is None else Cell(probability(p), p)
                for p in (test.p_value, test.p_holm)
            ),
            cell(test.effect_size, "+.2f"),
            test.pairs,
            test.needed_pairs,
        ]
        for test in table.tests
    ]
    return Table(names, rows)


def _differences(table: ComparisonTable) -> list[Plot]:
    titles = {arm.name: arm.about for arm in table.arms}
    plots = []
    for name in table.data_sets:
        tests = [test for test in table.tests if test.data_set == name]
        rows = [
            (f"{titles[t.arm]} against {titles[t.against]}", t.difference, (t.low, t.high), ())
            for t in tests
        ]
        if rows:
            title = f"{name}: difference in {metric_title(tests[0].metric)}, points"
            plots.append(intervals(title, rows, wide=True, zero=True))
    return plots


def _right(arms: Sequence[Arm]) -> Table:
    shares = {arm.about: arm.teachers_right for arm in arms if arm.teachers_right}
    most = max(map(len, shares.values()), default=0)
    rows: list[Row] = [
        [about, *(cell(100 * share, ".1f") for share in row), *[None] * (most - len(row))]
        for about, row in shares.items()
    ]
    return Table(["", *(f"{number} right (%)" for number in range(most))], rows)


def _settings(groups: Groups) -> Table:
    tables = [runs[0].settings for runs in groups.values()]
    keys = list(dict.fromkeys(key for table in tables for key in table if is_decisive(key)))
    varied = [key for key in keys if len({str(table.get(key)) for table in tables}) > 1]
    varied.sort(key=lambda key: any(table.get(key) is None for table in tables))
    rows = [[key, *(setting(table.get(key)) for table in tables)] for key in varied]
    return Table(["", *groups], rows)


def _curves(groups: Groups) -> list[Plot]:
    """Return the losses of each group: the mean over its seeds at the steps that all recorded."""
    every = [run for runs in groups.values() for run in runs]
    names = dict.fromkeys(name for run in every for name in loss_names(run)[:2])
    plots, most = [], len(SERIES)
    note = f"The first {most} of {len(groups)} groups." if len(groups) > most else ""
    for name in list(names)[:9]:
        plot = new_plot(f"Loss: {name.removeprefix('train/')} (nats)", "step", note=note)
        for (group, runs), color in zip(groups.items(), SERIES, strict=False):
            series = [dict(points) for run in runs if (points := run.series(name))]
            steps = [at for at in (series or [{}])[0] if all(at in one for one in series)]
            means = [sum(one[step] for one in series) / len(series) for step in steps]
            if len(steps) > 1:
                plot.axes.plot(steps, means, color=color, label=group)
        if plot.axes.lines:
            add_legend(plot)
            plots.append(plot)
    return plots


def _runs_table(runs: Sequence[RunRecord]) -> Table:
    """Return the table of single runs; their paths below a common folder link to their pages."""
    top = os.path.commonpath([run.directory.resolve().parent for run in runs]) if runs else ""
    metrics = dict.fromkeys(name for run in runs for name in headline(run.metrics))
    shown = [f"{m.split('/')[1]} {metric_title(m.rsplit('/', 1)[-1])}" for m in metrics]
    rows: list[Row] = [
        [
            Cell(os.path.relpath(run.directory.resolve(), top), link=run.directory / "report.html"),
            run.verb if run.finished else f"{run.verb}, not finished",
            str(run.settings.get("seed", NOTHING.text)),
            run.steps,
            Cell(duration(run.seconds), run.seconds) if run.seconds else None,
            *(run.metrics.get(metric) for metric in metrics),
        ]
        for run in runs
    ]
    return Table(["run", "verb", "seed", "steps", "time", *shown], rows, live=True)


def comparison_text(table: ComparisonTable) -> str:
    """Return the tables of a comparison for the terminal: the arms on each data set, and tests."""
    parts = []
    for shown in [*(arms_table(table, name) for name in table.data_sets), tests_table(table)]:
        texts = [["-" if cell is NOTHING else cell.text for cell in row] for row in shown.cells]
        if texts:
            parts.append(aligned([dict(zip(shown.names, row, strict=True)) for row in texts]))
    for run in table.failed:
        parts.append(f"failed: {run.arm}, seed {run.seed}: {first_line(run.error)}")
    return "\n\n".join(parts)
