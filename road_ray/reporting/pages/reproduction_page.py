"""Page of ``road reproduce``: arms of a comparison with intervals, tests and published figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from road_ray.errors import CheckpointError
from road_ray.evaluation.seed_statistics import is_significant
from road_ray.reporting.pages.page import (
    NOTHING,
    Cell,
    Figures,
    Page,
    Prose,
    Section,
    State,
    Table,
    Verdict,
    filled,
)
from road_ray.reporting.plots.chart import Axis, Chart, Dot, Figure, Intervals
from road_ray.reporting.text_tables import aligned, metric_title, probability, with_deviation
from road_ray.system.json_file import read_json

TABLE = "table.json"
Entry = Mapping[str, Any]
_NONE: Entry = dict.fromkeys(("mean", "deviation", "low", "high", "published"))

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


def comparison_text(table: Entry) -> str:
    """Return the tables of a comparison for the terminal: figures of each arm and of teachers as
    ``58.31 ± 0.60 [57.9, 58.7] (91.38)`` (mean, deviation, 95% interval, published), and tests.
    """
    names = [f"{name}/{m}" for name, metrics in table["data_sets"].items() for m in metrics]
    rows = [
        {"arm": arm["about"], "seeds": len(arm["seeds"])}
        | {name: _figure_text(arm["figures"].get(name, _NONE)) for name in names}
        for arm in [*table["arms"], *_teachers(table)]
    ]
    tests = _tests(table["tests"], {arm["name"]: arm["name"] for arm in table["arms"]})
    texts = [["-" if cell is NOTHING else cell.text for cell in row] for row in tests.cells]
    failed = [
        f"failed: {run['arm']}, seed {run['seed']}: {run['error'].splitlines()[0]}"
        for run in table["failed"]
    ]
    tables = [rows, [dict(zip(tests.names, row, strict=True)) for row in texts]]
    return "\n\n".join([*(aligned(one) for one in tables if one), "\n".join(failed)]).rstrip("\n")


def _figure_text(figure: Entry) -> str:
    if figure["mean"] is None:
        return "-"
    text = with_deviation(figure["mean"], figure["deviation"])
    if figure["low"] is not None:
        text += f" [{figure['low']:.1f}, {figure['high']:.1f}]"
    return text + (f" ({figure['published']:g})" if figure["published"] else "")


def _page(table: Entry) -> Page:
    sections = [
        Section(f"Results on {name}", [_results(table, name, metrics)])
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
    right = "Share of labelled training rows on which so many teachers were right."
    lines = [f"{run['arm']}, seed {run['seed']}: {run['error']}" for run in table["failed"]]
    sections += [
        Section("Right teachers", [_right(table["arms"])], right),
        Section("Failed runs", [Prose(lines, items=True)]),
    ]
    about = f"{table['about'][0].upper()}{table['about'][1:]}. Published: {table['source']}."
    return Page(
        title=table["comparison"].replace("_", " "),
        about=about,
        kicker="road reproduce",
        sections=filled(sections),
    )


def _results(table: Entry, name: str, metrics: Sequence[str]) -> Table:
    keys = [f"{name}/{metric}" for metric in metrics]
    judged = [arm for arm in _teachers(table) if any(key in arm["figures"] for key in keys)]
    arms = [*table["arms"], *judged]
    printed = any(arm["figures"].get(key, _NONE)["published"] for arm in arms for key in keys)
    sized = len({arm["parameters"] for arm in table["arms"]}) > 1
    columns = ["", "seeds"]
    for title in map(metric_title, metrics):
        columns += [title, "95% interval", *([f"published {title}"] if printed else [])]
    rows = []
    for arm in arms:
        row = [Cell(arm["about"]), _cell(len(arm["seeds"]), "d")]
        for key in keys:
            row += _figure(arm["figures"].get(key, _NONE), printed=printed)
        if sized:
            row += [_cell(arm["parameters"], ",d"), _cell(arm["rows_per_second"], ".0f")]
        rows.append(row)
    columns += ["parameters", "rows a second"] if sized else []
    note = "Mean ± standard deviation over seeds; published figures are of large models."
    return Table(columns, rows, note=note)


def _figure(figure: Entry, *, printed: bool) -> list[Cell]:
    if figure["mean"] is None:
        return [NOTHING] * (3 if printed else 2)
    mean, low = figure["mean"], figure["low"]
    between = NOTHING if low is None else Cell(f"{low:.2f} to {figure['high']:.2f}")
    published = [_cell(figure["published"], ".2f")] if printed else []
    return [Cell(with_deviation(mean, figure["deviation"]), mean), between, *published]


def _teachers(table: Entry) -> Iterator[Entry]:
    """Yield the single teachers of each ensemble, and their mean, in the form of an arm."""
    for ensemble in table["ensembles"]:
        by_name = ensemble["figures"]
        single = {
            key: {**_NONE, **by_name[key], "mean": by_name[key]["teachers"]} for key in by_name
        }
        mean = {key: {**_NONE, "mean": by_name[key]["ensemble"]} for key in by_name}
        for about, count, figures in (
            ("single teachers", ensemble["teachers"], single),
            ("the ensemble", 1, mean),
        ):
            yield {
                "about": f"{ensemble['name']}: {about}",
                "seeds": range(count),
                "figures": figures,
                "parameters": None,
                "rows_per_second": None,
            }


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
        rows = [
            (
                f"{titles[test['arm']]} against {titles[test['against']]}",
                test["difference"],
                (test["low"], test["high"]),
                (),
            )
            for test in tests
        ]
        if rows:
            title = f"{name}: difference in {metric_title(tests[0]['metric'])}, points"
            charts.append(Intervals(title, rows, wide=True, zero=True))
    return charts


def _sizes(table: Entry) -> list[Chart]:
    """Return score against size, where arms differ in it."""
    arms = [arm for arm in table["arms"] if arm["parameters"]]
    if len({arm["parameters"] for arm in arms}) < 2:
        return []
    charts = []
    for name, (metric, *_) in ((name, m) for name, m in table["data_sets"].items() if m):
        dots = [
            Dot(arm["parameters"] / 1e6, figure["mean"], name=arm["about"])
            for arm in arms
            if (figure := arm["figures"].get(f"{name}/{metric}"))
        ]
        if dots:
            title, across = f"{name}: {metric_title(metric)} by size", Axis("million parameters")
            charts.append(Chart(title, across, Axis("%"), dots=dots, wide=True))
    return charts


def _right(arms: Sequence[Entry]) -> Table:
    counted = [arm for arm in arms if arm["teachers_right"]]
    most = max((len(arm["teachers_right"]) for arm in counted), default=0)
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
