"""Page of ``road reproduce``: arms of a comparison with intervals, tests and published figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from road_ray.errors import CheckpointError
from road_ray.evaluation.seed_statistics import is_significant
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
    Verdict,
)
from road_ray.reporting.plots.chart import Axis, Chart, Dot, Figure, Intervals
from road_ray.reporting.text_tables import metric_title, probability
from road_ray.system.json_file import read_json

TABLE = "table.json"
Entry = Mapping[str, Any]

_ABOUT_TESTS = (
    "Mean difference with its 95% interval, paired by seed; p of the paired t-test, and corrected "
    "for all tests of a data set (Holm), undefined if the difference is equal for every seed; "
    "effect size: mean difference over its standard deviation; seeds that a test needs for a power "
    "of 80% if the effect is as large as measured. Bold: corrected p < 0.05."
)
_ABOUT_TEACHERS = (
    "All students of a comparison share their teachers, so the intervals do not include the "
    "variation between teachers."
)


def is_reproduction(directory: Path) -> bool:
    """Return True if a directory holds the table of a comparison; the demo's table is a list."""
    path = directory / TABLE
    return path.is_file() and path.read_text(encoding="utf-8", errors="replace")[:1] == "{"


def reproduction_page(directory: Path) -> Page:
    """Return the page of a comparison. Raises ``CheckpointError`` for a damaged table."""
    path = directory / TABLE
    remedy = "delete it and run the same `road reproduce` again"
    table = read_json(path, fix=remedy)
    try:
        return _page(table)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise CheckpointError(f"{path}: damaged: {error!r}\n  fix: {remedy}") from error


def _page(table: Entry) -> Page:
    sections = [
        Section(f"Results on {name}", list(_results(table, name, metrics)))
        for name, metrics in table["data_sets"].items()
        if metrics
    ]
    if table["tests"]:
        titles = {arm["name"]: arm["about"] for arm in table["arms"]}
        charts: list[Figure] = [*_differences(table, titles), *_sizes(table)]
        about = f"{_ABOUT_TESTS} {_ABOUT_TEACHERS}" if table["ensembles"] else _ABOUT_TESTS
        sections += [
            Section(
                "Differences",
                [_verdict(table["tests"], titles), Figures(charts)],
                "Bars are 95% intervals.",
            ),
            Section("Tests", [_tests(table["tests"], titles)], about),
        ]
    if right := _right(table["arms"]):
        about = "Share of labelled training rows on which so many teachers were right."
        sections.append(Section("Right teachers", [right], about))
    if table["failed"]:
        lines = [f"{run['arm']}, seed {run['seed']}: {run['error']}" for run in table["failed"]]
        sections.append(Section("Failed runs", [Prose(lines, items=True)]))
    about = f"{table['about'][0].upper()}{table['about'][1:]}. Published: {table['source']}."
    return Page(
        title=table["comparison"].replace("_", " "),
        about=about,
        kicker="road reproduce",
        sections=sections,
    )


def _results(table: Entry, name: str, metrics: Sequence[str]) -> Iterator[Block]:
    arms = table["arms"]
    printed = any(
        (arm["figures"].get(f"{name}/{metric}") or {}).get("published")
        for arm in arms
        for metric in metrics
    )
    columns = ["", "seeds"]
    for metric in metrics:
        title = metric_title(metric)
        columns += [title, "95% interval", *([f"published {title}"] if printed else [])]
    rows = [_row(arm, name, metrics, printed=printed) for arm in arms]
    rows += [
        row
        for ensemble in table["ensembles"]
        for row in _teachers(ensemble, name, metrics, printed=printed)
    ]
    sized = len({arm["parameters"] for arm in arms}) > 1
    if sized:
        columns += ["parameters", "rows a second"]
        for row, arm in zip(rows, arms, strict=False):
            row += [_cell(arm["parameters"], ",d"), _cell(arm["rows_per_second"], ".0f")]
        for row in rows[len(arms) :]:
            row += [NOTHING, NOTHING]
    note = "Mean ± standard deviation over seeds; published figures are of large models."
    yield Table(columns, rows, note=note)


def _row(arm: Entry, name: str, metrics: Sequence[str], *, printed: bool) -> list[Cell]:
    row = [Cell(arm["about"]), _cell(len(arm["seeds"]), "d")]
    for metric in metrics:
        figure = arm["figures"].get(f"{name}/{metric}")
        if figure is None:
            row += [NOTHING, NOTHING, *([NOTHING] if printed else [])]
            continue
        deviation = figure["deviation"]
        around = "" if deviation is None else f" ± {deviation:.2f}"
        row.append(Cell(f"{figure['mean']:.2f}{around}", figure["mean"]))
        ends = figure["low"], figure["high"]
        row.append(NOTHING if ends[0] is None else Cell(f"{ends[0]:.2f} to {ends[1]:.2f}"))
        row += [_cell(figure.get("published"), ".2f")] if printed else []
    return row


def _teachers(
    ensemble: Entry, name: str, metrics: Sequence[str], *, printed: bool
) -> Iterator[list[Cell]]:
    """Yield the rows of single teachers and of their mean, where they were evaluated."""
    figures = [ensemble["figures"].get(f"{name}/{metric}") for metric in metrics]
    if not any(figures):
        return
    skipped = [NOTHING] * (2 if printed else 1)
    for kind, about in (("teachers", "single teachers"), ("ensemble", "the ensemble")):
        row = [Cell(f"{ensemble['name']}: {about}")]
        row.append(_cell(ensemble["teachers"] if kind == "teachers" else 1, "d"))
        for figure in figures:
            row += [_cell((figure or {}).get(kind), ".2f"), *skipped]
        yield row


def _verdict(tests: Sequence[Entry], titles: Mapping[str, str]) -> Verdict:
    """Return a sentence for each difference that survives the correction, or one that none does."""
    lines: list[tuple[str, State]] = []
    for test in tests:
        if is_significant(test["p_holm"]):
            better, p_value = test["difference"] > 0, probability(test["p_holm"])
            text = (
                f"{test['data_set']}: {titles[test['arm']]} is {'better' if better else 'worse'} "
                f"than {titles[test['against']]} by {abs(test['difference']):.2f} points "
                f"(corrected p {p_value if p_value.startswith('<') else f'= {p_value}'})."
            )
            lines.append((text, "good" if better else "bad"))
    none = f"No difference is significant after correction (tests: {len(tests)})."
    return Verdict(lines or [(none, "plain")])


def _tests(tests: Sequence[Entry], titles: Mapping[str, str]) -> Table:
    names = ["data set", "arm", "against", "difference", "95% interval", "p", "p (Holm)"]
    names += ["effect size", "pairs", "seeds for 80% power"]
    rows = []
    for test in tests:
        sure = is_significant(test["p_holm"])
        rows.append(
            [
                Cell(test["data_set"]),
                Cell(titles[test["arm"]], strong=sure),
                Cell(titles[test["against"]]),
                Cell(f"{test['difference']:+.2f}", test["difference"], strong=sure),
                Cell(f"{test['low']:+.2f} to {test['high']:+.2f}"),
                *(_probability(test[name]) for name in ("p_value", "p_holm")),
                _cell(test["effect_size"], "+.2f"),
                _cell(test["pairs"], "d"),
                _cell(test["needed_pairs"], ",d"),
            ]
        )
    return Table(names, rows)


def _differences(table: Entry, titles: Mapping[str, str]) -> list[Intervals]:
    charts = []
    for name in table["data_sets"]:
        tests = [test for test in table["tests"] if test["data_set"] == name]
        if not tests:
            continue
        rows = [
            (
                f"{titles[test['arm']]} against {titles[test['against']]}",
                test["difference"],
                (test["low"], test["high"]),
                (),
            )
            for test in tests
        ]
        title = f"{name}: difference in {metric_title(tests[0]['metric'])}, points"
        charts.append(Intervals(title, rows, wide=True, zero=True))
    return charts


def _sizes(table: Entry) -> list[Chart]:
    """Return score against size, where arms differ in it."""
    arms = [arm for arm in table["arms"] if arm["parameters"]]
    if len({arm["parameters"] for arm in arms}) < 2:
        return []
    charts = []
    for name, metrics in table["data_sets"].items():
        key = f"{name}/{metrics[0]}" if metrics else ""
        shown = [arm for arm in arms if key in arm["figures"]]
        dots = [
            Dot(arm["parameters"] / 1e6, arm["figures"][key]["mean"], name=arm["about"])
            for arm in shown
        ]
        title = f"{name}: {metric_title(metrics[0])} by size" if metrics else ""
        if dots:
            across = Axis("million parameters")
            charts.append(Chart(title, across, Axis("%"), dots=dots, wide=True))
    return charts


def _right(arms: Sequence[Entry]) -> Table | None:
    counted = [arm for arm in arms if arm["teachers_right"]]
    if not counted:
        return None
    most = max(len(arm["teachers_right"]) for arm in counted)
    rows = [
        [
            Cell(arm["about"]),
            *(_cell(100 * share, ".1f") for share in arm["teachers_right"]),
            *[NOTHING] * (most - len(arm["teachers_right"])),
        ]
        for arm in counted
    ]
    return Table(["", *(f"{number} right (%)" for number in range(most))], rows)


def _probability(p_value: float | None) -> Cell:
    return NOTHING if p_value is None else Cell(probability(p_value), p_value)


def _cell(value: float | None, form: str) -> Cell:
    return NOTHING if value is None else Cell(format(value, form), value)
