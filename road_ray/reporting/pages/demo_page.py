"""Page of ``road demo``: verdict, models, stages with links to their runs, what to try next."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from road_ray.errors import DataError
from road_ray.evaluation.seed_statistics import is_significant
from road_ray.reporting.pages.comparison_page import (
    intervals,
    paired_against,
    runs_table,
    verdict,
)
from road_ray.reporting.pages.page import (
    Block,
    Cell,
    Command,
    Figures,
    Flow,
    Page,
    Section,
    Stage,
    Table,
    Verdict,
    filled,
    link_to,
)
from road_ray.reporting.plots.chart import Axis, Chart, Line, thinned
from road_ray.reporting.records.run_groups import Group
from road_ray.reporting.records.run_record import RunRecord, read_run, runs_below
from road_ray.reporting.text_tables import mean_with_deviation

TABLE = "table.json"
TASK = "sst2"
FIGURES = {"accuracy": f"eval/{TASK}/accuracy"}  # columns of the table
# Kinds of students, each with the part of its directories' names: ``student-none-100``.
STUDENTS = {
    "no KD": "none",
    "mean KD": "mean",
    "Weighted KD": "correctness",
    "no KD, all labels": "all",
}
_CURVES = (
    ("pretrain", "train/generator", "Pre-training: generator loss (nats)"),
    ("pretrain", "train/detection_auc", "Pre-training: detection, area under the ROC curve"),
    ("multitask", "train/squad_v2", "Multi-task: loss on squad_v2 (nats)"),
    ("teacher-0", f"train/{TASK}", "Teacher 0: loss on reviews (nats)"),
)
_NEXT = (
    ("More seeds, which reveal smaller differences:", "road demo num_seeds=8 --run-dir {dir}"),
    (
        "A review for a student:",
        "echo 'although the plot is dull , the ending is charming .' "
        "| road predict {dir}/student-mean-100",
    ),
    (
        "Questions from the same encoder, judged on text of another style too:",
        "road finetune init={dir}/multitask data.root=miniature data.dataset=squad_v2 "
        "data.evaluate_on=squad_v2,newsqa data.max_length_tokens=192 optimizer.peak_lr=1e-3 "
        "--run-dir {dir}-questions",
    ),
    (
        "The teachers of this demo again, with another temperature:",
        "road distill init={dir}/multitask student.layers=1 data.root=miniature data.dataset=sst2 "
        "data.max_rows=300 data.unlabelled=[{dir}/rows/unlabelled.jsonl] "
        "distillation.teachers=[{dir}/teachers/teachers.json] distillation.temperature=4 "
        "optimizer.peak_lr=1e-3 --run-dir {dir}-warmer",
    ),
)


def is_demo(directory: Path) -> bool:
    """Return True if a directory is a demo directory."""
    return (directory / TABLE).is_file()


def demo_page(directory: Path, place: Path | None = None) -> Page:
    """Return the page of a demo. ``place`` is the directory of the page, for links to the runs."""
    rows, where = _rows(directory / TABLE), shlex.quote(str(directory))
    runs = {path.name: read_run(path) for path in runs_below(directory, deepest=1)}
    groups = _groups(runs)
    charts = [
        Chart(title, Axis("step", whole=True), Axis(), lines=[Line(thinned(points))])
        for stage, name, title in _CURVES
        if stage in runs and len(points := runs[stage].series(name)) > 1
    ]
    sections = [
        Section("Result", _result(groups)),
        Section("Models", [_table(rows, groups)]),
        Section("Stages", [Flow(_stages(runs, place)), Figures(charts)] if runs else []),
        Section(
            "What to try next", [Command(line.format(dir=where), about) for about, line in _NEXT]
        ),
        Section("Runs", [runs_table([*runs.values()], place)]),
    ]
    return Page(
        title="Demo: from pre-training to distillation",
        about="What do teachers gain for a small student that has few labels and many rows "
        "without, and does it matter how they are weighted? The teachers have all labels. Percent; "
        "mean ± standard deviation over seeds. Tiny models on a synthetic data set: not comparable "
        "with published results.",
        kicker="road demo",
        sections=filled(sections),
    )


def _groups(runs: Mapping[str, RunRecord]) -> list[Group]:
    """Return the students of each kind, with at least one run."""
    students = {
        title: [run for name, run in runs.items() if name.startswith(f"student-{rule}-")]
        for title, rule in STUDENTS.items()
    }
    return [Group(title, members) for title, members in students.items() if members]


def _result(groups: Sequence[Group]) -> list[Block]:
    """Return the verdict on each pair of kinds, and the figures with error bars."""
    (title, metric), *_ = FIGURES.items()
    pairs = [(group, base) for n, base in enumerate(groups) for group in groups[n + 1 :]]
    verdicts = [verdict(group, base, metric) for group, base in pairs]
    figure = intervals(groups, metric, title)
    return [
        Verdict([line for line in verdicts if line is not None]),
        Figures([] if figure is None else [figure]),
    ]


def _stages(runs: Mapping[str, RunRecord], place: Path | None) -> list[Stage]:
    """Return the stages in order, with links to the pages of their runs."""

    def pages(start: str, name: str) -> tuple[str, list[tuple[str, str]]]:
        links = [
            (run.removeprefix(start) or "page", link)
            for run, record in runs.items()
            if run.startswith(start) and (link := link_to(record.directory / "report.html", place))
        ]
        return (name if links else "", links)

    students = [pages(f"student-{rule}-", f"{title}:") for title, rule in STUDENTS.items()]
    return [
        Stage(
            "1. Pre-training",
            "A small ELECTRA learns to detect replaced tokens.",
            [pages("pretrain", "")],
        ),
        Stage(
            "2. Multi-task",
            "The encoder learns four tasks, with one head each.",
            [pages("multitask", "")],
        ),
        Stage(
            "3. Teachers",
            "The encoder is fine-tuned on reviews with all labels, with a seed each.",
            [pages("teacher-", "seed")],
        ),
        Stage(
            "4. Students",
            "Half of the encoder's layers learn the reviews from few labels (no KD), also from the "
            "teachers' mean on all rows (mean KD), or with right teachers counting more "
            "(Weighted KD); for comparison, from all labels. All make as many updates.",
            students,
        ),
        Stage(
            "5. Evaluation",
            "Accuracy on reviews that no model was trained on.",
        ),
    ]


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        rows, why = None, str(error).splitlines()[0]
    else:
        why = "not the rows of a table"
    if not (isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)):
        raise DataError(f"{path}: damaged: {why}\n  fix: delete it and run `road demo` again")
    if any(rows[0].keys() - row.keys() for row in rows):
        raise DataError(
            f"{path}: damaged: its rows do not have the columns of the first\n"
            "  fix: delete it and run `road demo` again"
        )
    return rows


def _table(rows: Sequence[Mapping[str, Any]], groups: Sequence[Group]) -> Table:
    names = [name for name in rows[0] if not name.endswith(" +-")]
    numeric = {name for name in names if all(isinstance(row[name], float) for row in rows)}
    shown = [
        [
            Cell(mean_with_deviation(row, name), row[name], _differs(row, name, groups))
            if name in numeric
            else Cell(str(row[name]), row[name] if isinstance(row[name], int) else None)
            for name in names
        ]
        for row in rows
    ]
    note = "Bold: differs from no KD, by a paired t-test over shared seeds (p < 0.05)."
    return Table(names, shown, note=note)


def _differs(row: Mapping[str, object], name: str, groups: Sequence[Group]) -> bool:
    """Return True if a figure of a kind of student differs from that of the first kind."""
    group = next((group for group in groups[1:] if group.name == row.get("model")), None)
    if group is None or name not in FIGURES:
        return False
    test = paired_against(group, groups[0], FIGURES[name])
    return test is not None and is_significant(test.p_value)
