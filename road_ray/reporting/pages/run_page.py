"""Page of one run: result, curves, health, time, teachers, errors, faults, lineage."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence

from road_ray.reporting.advice import advice, time_split
from road_ray.reporting.error_analysis import error_examples
from road_ray.reporting.health import checks, loss_names, right_counts
from road_ray.reporting.pages.page import (
    Block,
    Cell,
    Figures,
    Folded,
    Page,
    Prose,
    Section,
    Table,
    Value,
    filled,
    setting,
)
from road_ray.reporting.pages.prediction_figures import prediction_figures
from road_ray.reporting.pages.run_curves import curve_title, curves
from road_ray.reporting.plots import intervals
from road_ray.reporting.published_results import published_line
from road_ray.reporting.records.lineage import lineage_table
from road_ray.reporting.records.run_record import CONFIG, RunRecord
from road_ray.reporting.text_tables import is_baseline, is_principal, metric_title, percent

_ABOUT = {
    "pretrain": "Pre-training of an encoder on a text corpus",
    "multitask": "Multi-task pre-training, with gradients averaged over data sets",
    "finetune": "Fine-tuning on one data set",
    "distill": "A student trained on labels and on an ensemble of teachers",
    "evaluate": "Evaluation of a trained model",
    "teachers": "Several seeds of one fine-tuning, for an ensemble",
}
_MOST_TILES = 8
# Figures of a pre-training that stand among the tiles.
_TRAINED = ("train/detection_auc", "train/generator_accuracy", "train/mlm_accuracy")


def run_page(run: RunRecord, *, examples: bool = True) -> Page:
    """Return the page of a run. ``examples`` also reads the data, to show wrong predictions."""
    sections = [
        Section("Result", _result(run), _evaluation_note(run)),
        Section("Curves", [Figures(curves(run))]),
        Section(
            "Health",
            [_health(run)],
            "Checks of losses, gradients, teachers and predictions.",
        ),
        Section("Time", _time(run)),
        Section("Teachers", _teachers(run)),
        Section("Predictions", prediction_figures(run)),
        Section(
            "Errors",
            error_examples(run) if examples else (),
            "Predictions that are not exactly right, sampled evenly from the worst to the mildest.",
        ),
        Section("Faults", [*_faults(run), *_routine(run)]),
        Section("Lineage", lineage_table(run)),
        Section("Set-up", [*_setup(run)]),
    ]
    return Page(
        title=run.name,
        about=_about(run),
        kicker=f"road {run.verb}",
        tiles=_tiles(run),
        sections=filled(sections),
    )


def _about(run: RunRecord) -> str:
    data = run.config.get("data") or {}
    names = data.get("datasets") or [data.get("dataset") or data.get("corpus")]
    on = ", ".join(str(name) for name in names if name)
    text = _ABOUT.get(run.verb, "A run") + (f": {on}" if on else "") + "."
    if not run.finished:
        text += f" Not finished: the last row is of step {run.steps:,}."
    return " ".join([text, *run.problems])


def _tiles(run: RunRecord) -> list[tuple[str, str, str]]:
    tiles = []
    for name, value in list(headline(run.metrics).items())[:4]:
        dataset, metric = _parts(name)
        known = "" if run.limits else published_line(dataset, metric, 1)
        remark = run.limits[-1] if run.limits else known and f"paper: {known}"
        tiles.append((f"{dataset} {metric_title(metric)}", percent(value), remark))
    if not tiles:
        last = [(name, run.last(name)) for name in _TRAINED]
        tiles = [
            (curve_title(name), f"{figure:.3f}", "at the end of the run")
            for name, figure in last
            if figure is not None
        ]
    if (losses := loss_names(run)) and (loss := run.last(losses[0])) is not None:
        first = run.series(losses[0])[0][1]
        tiles.append((curve_title(losses[0]), f"{loss:.3f}", f"{first:.3f} at the first row"))
    early = [event.get("step") for event in run.events if event.get("kind") == "stopped_early"]
    if early and isinstance(early[-1], int):
        tiles.append(("steps", f"{early[-1]:,}", f"stopped early, {run.steps:,} planned"))
    elif run.steps:
        tiles.append(("steps", f"{run.steps:,}", ""))
    if run.seconds:
        tiles.append(("time in steps", clock(run.seconds), ""))
    speed = run.last("time/tokens_per_second")
    if speed:
        share = run.last("time/mfu")
        remark = f"{share:.0%} of the device's peak (MFU)" if share else "at the end of the run"
        tiles.append(("tokens a second", f"{speed:,.0f}", remark))
    return tiles[:_MOST_TILES]


def headline(metrics: Mapping[str, object]) -> dict[str, float]:
    """Return the principal figures; figures at a threshold replace their untuned counterparts."""
    shown = {n: v for n, v in metrics.items() if is_principal(n) and isinstance(v, int | float)}
    tuned = {name for name in shown if "/at_threshold_" in name}
    plain = {name.replace("/at_threshold_", "/") for name in tuned}
    return {name: value for name, value in shown.items() if name not in plain}


def _parts(name: str) -> tuple[str, str]:
    """Return data set and metric: ``eval/squad_v2/f1`` gives ``squad_v2``, ``f1``."""
    pieces = name.split("/")
    return pieces[1] if len(pieces) > 2 else "", pieces[-1]


def _evaluation_note(run: RunRecord) -> str:
    text = "Percentages, larger is better."
    if run.limits:
        text += f" Not comparable with published results: {', '.join(run.limits)}."
    return text if any(name.startswith("eval/") for name in run.metrics) else ""


def _result(run: RunRecord) -> list[Block]:
    principal = {n: v for n, v in run.metrics.items() if is_principal(n) or is_baseline(n)}
    chosen = principal or {n: v for n, v in run.metrics.items() if not n.startswith("time/")}
    if not chosen:
        return [Prose(["No final figures."])]
    rows: list[Sequence[Value | Cell]] = []
    for name, value in chosen.items():
        dataset, metric = _parts(name)
        text = percent(value) if dataset and isinstance(value, int | float) else None
        papers = None if run.limits else published_line(dataset, metric) or None
        rows.append(
            [
                dataset or None,
                curve_title(name) if name.startswith("train/") else metric_title(metric),
                Cell(text, value, strong=True) if text else value,
                papers,
            ]
        )
    titles = ["data set", "figure", "value", "published"]
    used = [n for n in range(4) if n in (1, 2) or any(row[n] is not None for row in rows)]
    titles, rows = [titles[n] for n in used], [[row[n] for n in used] for row in rows]
    full = [[name, value] for name, value in run.metrics.items()]
    all_of_them = "\n".join(f"{name:<44}{value}" for name, value in full)
    tables = [Table(titles, rows), *_by_answerability(run.metrics)]
    return [*tables, Folded(f"all {len(full)} figures", all_of_them)]


def _by_answerability(metrics: Mapping[str, object]) -> Iterable[Table]:
    """Yield the scores of questions with and without answer, if a data set has both."""
    rows: list[Sequence[Value | Cell]] = []
    for name in metrics:
        if not name.endswith("/NoAns_exact") or name.replace("NoAns", "HasAns") not in metrics:
            continue
        start = name.removesuffix("NoAns_exact")
        prefix = f"{start}at_threshold_" if f"{start}at_threshold_exact" in metrics else start
        for title, group in (("with answer", "HasAns_"), ("without answer", "NoAns_")):
            values = [metrics.get(f"{prefix}{group}{score}") for score in ("exact", "f1")]
            count = metrics.get(f"{start}{group}total")
            cells = [Cell(percent(v), v) if isinstance(v, int | float) else None for v in values]
            number = int(count) if isinstance(count, int | float) else None
            rows.append([start.split("/")[1], title, number, *cells])
    if rows:
        note = "At the stored no-answer threshold where there is one, else at 0."
        yield Table(["data set", "questions", "number", "EM", "F1"], rows, note=note)


def _health(run: RunRecord) -> Table:
    rows: list[list[Value | Cell]] = [
        [check.name, Cell(check.reading, state=check.state), check.about] for check in checks(run)
    ]
    return Table(["check", "reading", "meaning"], rows)


def _time(run: RunRecord) -> list[Block]:
    split = time_split(run)
    if split is None:
        return []
    title = f"A mean step takes {1000 * sum(split.values()):,.0f} ms"
    rows = [(name, 1000 * seconds, None, ()) for name, seconds in split.items() if seconds > 0]
    return [Figures([intervals(title, rows, zero=True)]), Prose(advice(run, split), items=True)]


def _teachers(run: RunRecord) -> list[Block]:
    counts = right_counts(run)
    if not sum(counts):
        return []
    total, most = sum(counts), len(counts) - 1
    rows = [
        (f"{number} of {most} right", 100 * count / total, None, ())
        for number, count in enumerate(counts)
    ]
    weighting = dict(run.config.get("weighting") or {})
    settings = {
        name: value
        for name, value in (run.config.get("distillation") or {}).items()
        if name not in ("teachers", "matching") and value not in (None, {})
    }
    right = intervals(
        "How many teachers were right (%)",
        rows,
        zero=True,
        note=f"Of {total:,.0f} training rows (for spans: of starts and ends).",
    )
    pairs = {name: setting(value) for name, value in {**weighting, **settings}.items()}
    return [Figures([right]), Table(["setting", "value"], [*pairs.items()])]


def _faults(run: RunRecord) -> list[Block]:
    if not run.faults:
        return [Prose(["None recorded."])] if run.rows else []
    rows: list[list[Value | Cell]] = [
        [
            Cell(str(event.get("time", ""))[:19].replace("T", " ")),
            str(event.get("kind", "?")),
            "; ".join(f"{k}: {setting(v)}" for k, v in event.items() if k not in ("time", "kind")),
        ]
        for event in run.faults
    ]
    return [Table(["time (UTC)", "what", "details"], rows)]


def _routine(run: RunRecord) -> Iterable[Folded]:
    """Yield the events of a run without faults."""
    lines = [
        f"{str(event.get('time', ''))[:19].replace('T', ' ')}  "
        + ", ".join(str(v) if k == "kind" else f"{k}: {v}" for k, v in event.items() if k != "time")
        for event in run.events
        if event not in run.faults
    ]
    if lines:
        yield Folded(f"routine events: {len(lines)}", "\n".join(lines))


def _setup(run: RunRecord) -> Iterable[Block]:
    environment = run.environment
    packages = dict(environment.get("packages") or {})
    facts: dict[str, object] = {
        "seed": run.config.get("seed", environment.get("seed")),
        "workers": run.config.get("workers"),
        "devices": ", ".join(environment.get("devices") or ())
        or f"CPU, {environment.get('cpus', '?')} cores",
        "python": environment.get("python"),
        "revision": environment.get("revision"),
        "platform": environment.get("platform"),
        **packages,
    }
    rows = [[name, str(value)] for name, value in facts.items() if value is not None]
    yield Table(["what", "value"], rows)
    if run.config:
        record = shlex.quote(str(run.directory / CONFIG))
        again = shlex.quote(f"{run.directory}-again")
        yield Folded("to repeat this run", f"road {run.verb} {record} --run-dir {again}")
        yield Folded("configuration", json.dumps(run.config, indent=2, default=str))


def clock(seconds: float) -> str:
    """Return a duration as ``95 s``, ``12 min`` or ``3.4 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
