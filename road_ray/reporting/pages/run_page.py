"""Page of one run: result, curves, health, time, teachers, errors, faults, lineage."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence

from road_ray.reporting.error_analysis import error_examples
from road_ray.reporting.health import advice, checks, loss_names, right_counts, time_split
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
from road_ray.reporting.pages.run_plots import curve_title, curves, prediction_figures
from road_ray.reporting.records.comparison_table import published_line
from road_ray.reporting.records.run_record import CONFIG, RunRecord, ancestors, describe_model
from road_ray.reporting.text_tables import is_baseline, is_principal, metric_title

_ABOUT = {
    "pretrain": "Pre-training of an encoder on a text corpus",
    "multitask": "Multi-task pre-training, with gradients averaged over data sets",
    "finetune": "Fine-tuning on one data set",
    "distill": "A student trained on labels and on an ensemble of teachers",
    "evaluate": "Evaluation of a trained model",
    "teachers": "Several seeds of one fine-tuning, for an ensemble",
}
_MOST_TILES = 8
# Metrics of a pre-training that stand among the tiles.
_TRAINED = ("train/detection_auc", "train/generator_accuracy", "train/mlm_accuracy")


def run_page(run: RunRecord, *, examples: bool = True) -> Page:
    """Return the page of a run. ``examples`` also reads the data, to show wrong predictions."""
    note = "Percentages, larger is better."
    if run.limits:
        note += f" Not comparable with published results: {', '.join(run.limits)}."
    health: list[list[Value | Cell]] = [
        [check.name, Cell(check.reading, state=check.state), check.about] for check in checks(run)
    ]
    about_health = "Checks of losses, gradients, teachers and predictions."
    errors = error_examples(run) if examples else []
    about_errors = (
        "Predictions that are not exactly right, sampled evenly from the worst to the mildest."
    )
    evaluated = any(name.startswith("eval/") for name in run.metrics)
    sections = [
        Section("Result", _result(run), note if evaluated else ""),
        Section("Curves", [Figures(curves(run))]),
        Section("Health", [Table(["check", "reading", "meaning"], health)], about_health),
        Section("Time", _time(run)),
        Section("Teachers", _teachers(run)),
        Section("Predictions", prediction_figures(run)),
        Section("Errors", errors, about_errors),
        Section("Faults", _events(run)),
        Section("Lineage", _lineage(run)),
        Section("Set-up", _setup(run)),
    ]
    return Page(run.name, _about(run), f"road {run.verb}", _tiles(run), filled(sections))


def _about(run: RunRecord) -> str:
    keys = ("data.datasets", "data.dataset", "data.corpus")
    on = setting(next(filter(None, map(run.settings.get, keys)), None))
    text = _ABOUT.get(run.verb, "A run") + (f": {on}." if on != setting(None) else ".")
    if not run.finished:
        text += f" Not finished: the last row is of step {run.steps:,}."
    return " ".join([text, *run.problems])


def _tiles(run: RunRecord) -> list[tuple[str, str, str]]:
    tiles = []
    for name, value in list(headline(run.metrics).items())[:4]:
        dataset, metric = _parts(name)
        known = "" if run.limits else published_line(dataset, metric, 1)
        remark = run.limits[-1] if run.limits else known and f"paper: {known}"
        tiles.append((f"{dataset} {metric_title(metric)}", f"{value:.2f}", remark))
    if not tiles:
        last = {name: run.last(name) for name in _TRAINED}
        tiles = [
            (curve_title(name), f"{value:.3f}", "at the end of the run")
            for name, value in last.items()
            if value is not None
        ]
    if (losses := loss_names(run)) and (points := run.series(losses[0])):
        remark = f"{points[0][1]:.3f} at the first row"
        tiles.append((curve_title(losses[0]), f"{points[-1][1]:.3f}", remark))
    early = [event.get("step") for event in run.events if event.get("kind") == "stopped_early"]
    if early and isinstance(early[-1], int):
        tiles.append(("steps", f"{early[-1]:,}", f"stopped early, {run.steps:,} planned"))
    elif run.steps:
        tiles.append(("steps", f"{run.steps:,}", ""))
    if run.seconds:
        tiles.append(("time in steps", clock(run.seconds), ""))
    if speed := run.last("time/tokens_per_second"):
        share = run.last("time/mfu")
        remark = f"{share:.0%} of the device's peak (MFU)" if share else "at the end of the run"
        tiles.append(("tokens a second", f"{speed:,.0f}", remark))
    return tiles[:_MOST_TILES]


def headline(metrics: Mapping[str, object]) -> dict[str, float]:
    """Return the principal metrics; those at a threshold replace their untuned counterparts."""
    shown = {n: v for n, v in metrics.items() if is_principal(n) and isinstance(v, int | float)}
    plain = {name.replace("/at_threshold_", "/") for name in shown if "/at_threshold_" in name}
    return {name: value for name, value in shown.items() if name not in plain}


def _parts(name: str) -> tuple[str, str]:
    """Return data set and metric: ``eval/squad_v2/f1`` gives ``squad_v2``, ``f1``."""
    pieces = name.split("/")
    return pieces[1] if len(pieces) > 2 else "", pieces[-1]


def _result(run: RunRecord) -> list[Block]:
    principal = {n: v for n, v in run.metrics.items() if is_principal(n) or is_baseline(n)}
    chosen = principal or {n: v for n, v in run.metrics.items() if not n.startswith("time/")}
    if not chosen:
        return [Prose(["No final metrics."])]
    titles = ["data set", "metric", "value", "published"] if principal else ["metric", "value"]
    rows: list[Sequence[Value | Cell]] = []
    for name, value in chosen.items():
        dataset, metric = _parts(name)
        title = curve_title(name) if name.startswith("train/") else metric_title(metric)
        text = f"{value:.2f}" if dataset and isinstance(value, int | float) else None
        shown = Cell(text, value, strong=True) if text else value
        papers = None if run.limits else published_line(dataset, metric) or None
        rows.append([dataset, title, shown, papers] if principal else [title, shown])
    every = "\n".join(f"{name:<44}{value}" for name, value in run.metrics.items())
    folded = Folded(f"all {len(run.metrics)} metrics", every)
    return [Table(titles, rows), *_by_answerability(run.metrics), folded]


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
            cells = [Cell(f"{v:.2f}", v) if isinstance(v, int | float) else None for v in values]
            number = int(count) if isinstance(count, int | float) else None
            rows.append([start.split("/")[1], title, number, *cells])
    if rows:
        note = "At the stored no-answer threshold where there is one, else at 0."
        yield Table(["data set", "questions", "number", "EM", "F1"], rows, note=note)


def _time(run: RunRecord) -> list[Block]:
    split = time_split(run)
    if not split:
        return []
    parts: list[Sequence[Value]] = [[name, 1000 * s] for name, s in split.items() if s > 0]
    whole = ["the whole step", 1000 * sum(split.values())]
    table = Table(["mean over steps", "ms"], [*parts, whole])
    return [table, Prose(advice(run, split), items=True)]


def _teachers(run: RunRecord) -> list[Block]:
    counts = right_counts(run)
    total, most = sum(counts), len(counts) - 1
    if not total:
        return []
    rows: list[Sequence[Value]] = [
        [f"{number} of {most}", 100 * count / total] for number, count in enumerate(counts)
    ]
    note = f"Of {total:,.0f} training rows (for spans: of starts and ends)."
    settings = [
        [key, setting(value)]
        for key, value in run.settings.items()
        if key.startswith(("weighting.", "distillation."))
        and not key.startswith(("distillation.teachers", "distillation.matching"))
        and value is not None
    ]
    right = Table(["teachers that were right", "% of rows"], rows, note=note)
    return [right, Table(["setting", "value"], settings)]


def _events(run: RunRecord) -> list[Block]:
    """Return the table of faults, and the events of a run without faults, folded."""
    rows: list[list[Value | Cell]] = []
    routine = []
    for event in run.events:
        when = str(event.get("time", ""))[:19].replace("T", " ")
        kind = str(event.get("kind", "?"))
        rest = "; ".join(
            f"{k}: {setting(v)}" for k, v in event.items() if k not in ("time", "kind")
        )
        if event in run.faults:
            rows.append([when, kind, rest])
        else:
            routine.append(f"{when}  {kind}  {rest}")
    blocks: list[Block] = [Table(["time (UTC)", "what", "details"], rows)] if rows else []
    if run.rows and not rows:
        blocks.append(Prose(["None recorded."]))
    if routine:
        blocks.append(Folded(f"routine events: {len(routine)}", "\n".join(routine)))
    return blocks


def _lineage(run: RunRecord) -> list[Block]:
    """Return a table of this model, its ancestors and its teachers."""
    if not run.model and not run.config.get("init"):
        return []
    rows = [
        [role, where, describe_model(facts), str(facts.get("weights_sha256") or "")[:12] or None]
        for role, where, facts in [("this model", str(run.directory), run.model), *ancestors(run)]
    ]
    return [Table(["", "where", "what", "weights"], rows)]


def _setup(run: RunRecord) -> list[Block]:
    environment = run.environment
    cores = f"CPU, {environment.get('cpus', '?')} cores"
    facts: dict[str, object] = {
        "seed": run.config.get("seed"),
        "workers": run.config.get("workers"),
        "devices": ", ".join(environment.get("devices") or ()) or cores,
        "python": environment.get("python"),
        "revision": environment.get("revision"),
        "platform": environment.get("platform"),
        **(environment.get("packages") or {}),
    }
    rows = [[name, str(value)] for name, value in facts.items() if value is not None]
    blocks: list[Block] = [Table(["what", "value"], rows)]
    if run.config:
        record = shlex.quote(str(run.directory / CONFIG))
        again = shlex.quote(f"{run.directory}-again")
        command = f"road {run.verb} {record} --run-dir {again}"
        blocks.append(Folded("to repeat this run", command))
        blocks.append(Folded("configuration", json.dumps(run.config, indent=2, default=str)))
    return blocks


def clock(seconds: float) -> str:
    """Return a duration as ``95 s``, ``12 min`` or ``3.4 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
