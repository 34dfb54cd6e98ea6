"""Run directories, read for a report, and the lineage of a model back to its corpus, as far as its
ancestors still exist. Missing or damaged files become notes instead of errors.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from road_ray.config import flatten
from road_ray.config.secrets import redact
from road_ray.config.yaml_files import read_yaml
from road_ray.errors import RoadError
from road_ray.system.files import read_json
from road_ray.training.monitoring.metrics_journal import read_metrics, read_rows

_log = logging.getLogger(__name__)
CONFIG = "config.resolved.yaml"
# Verb of a run by the first of these keys that its configuration has. The command does not tell it:
# `road demo` and `road sweep` make runs of other verbs.
_VERB_OF_KEY = {
    "comparison": "reproduce",
    "mixing": "multitask",
    "distillation": "distill",
    "generator": "pretrain",
    "num_folds": "teachers",
    "num_teachers": "demo",
    "optimizer": "finetune",
    "tune_threshold_on": "evaluate",
}
_NO_RUNS = ("checkpoints", "hf")  # directories within a run
# Kinds of events of every undisturbed run.
ROUTINE = (
    *("initialized", "phase", "stopped_early", "best_checkpoint"),
    "checkpoints_removed",
    "teachers_proven",
)

ModelFacts = dict[str, Any]  # the content of road_ray.json


@dataclass(frozen=True)
class RunRecord:
    """One run, read from its directory; secrets are masked."""

    directory: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    model: ModelFacts = field(default_factory=dict)  # hf/road_ray.json
    problems: tuple[str, ...] = ()

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Return the configuration by dotted key."""
        return flatten(self.config)

    @property
    def verb(self) -> str:
        """Return the verb of the run, by the keys of its configuration."""
        return next((v for key, v in _VERB_OF_KEY.items() if key in self.config), "finetune")

    @property
    def faults(self) -> list[dict[str, Any]]:
        """Return the events that do not belong to an undisturbed run."""
        return [event for event in self.events if event.get("kind") not in ROUTINE]

    @property
    def limits(self) -> list[str]:
        """Return the reasons why the metrics cannot be compared with published results."""
        reasons = []
        if "miniature" in (self.settings.get("data.root"), self.settings.get("root")):
            reasons.append("embedded miniature data set")
        for key, verb in (("data.max_rows", "trained on"), ("data.max_judged_rows", "judged on")):
            if isinstance(most := self.settings.get(key), int):
                reasons.append(f"{verb} at most {most:,} rows")
        return reasons

    @property
    def finished(self) -> bool:
        """Return True if the run is complete."""
        return bool(self.metrics) or (self.directory / "metrics.json").is_file()

    @property
    def steps(self) -> int:
        """Return the last recorded step."""
        return max((int(row.get("step", 0)) for row in self.rows), default=0)

    @property
    def seconds(self) -> float:
        """Return the recorded time spent in steps."""
        total, before = 0.0, 0
        for row in self.rows:
            if row.get("time/step_seconds") is not None:
                total += float(row["time/step_seconds"]) * (int(row["step"]) - before)
                before = int(row["step"])
        return total

    def series(self, name: str) -> list[tuple[float, float]]:
        """Return ``(step, value)`` of every row that has a metric."""
        return [
            (float(row["step"]), float(row[name]))
            for row in self.rows
            if isinstance(row.get(name), int | float)
        ]

    def last(self, name: str) -> float | None:
        """Return the last value of a metric, or None."""
        points = self.series(name)
        return points[-1][1] if points else None

    def names(self, start: str) -> list[str]:
        """Return the names of metrics with a prefix, in order of first appearance."""
        return list(dict.fromkeys(key for row in self.rows for key in row if key.startswith(start)))


def is_run(directory: Path) -> bool:
    """Return True if a directory is a run directory."""
    return any((directory / name).is_file() for name in (CONFIG, "metrics.jsonl", "metrics.json"))


def runs_below(directory: Path, *, deepest: int = 3) -> list[Path]:
    """Return the run directories in a folder by name, without descending into runs. A directory of
    several runs, such as that of teachers, is a folder.
    """
    runs: list[Path] = []
    if deepest == 0:
        return runs
    try:
        paths = sorted(directory.iterdir())
    except OSError as error:
        _log.warning("%s is left out: %s", directory, error.strerror)
        return []
    for path in paths:
        if path.is_dir() and not path.name.startswith(".") and path.name not in _NO_RUNS:
            if (path / "metrics.jsonl").is_file():
                runs.append(path)
            elif below := runs_below(path, deepest=deepest - 1):
                runs += below
            elif (path / CONFIG).is_file() and not any(path.glob(f"*/**/{CONFIG}")):
                runs.append(path)  # an evaluation has no journal
    return runs


def read_run(directory: Path) -> RunRecord:
    """Return the run in ``directory``, with secrets masked. Files that cannot be read are listed in
    ``problems``.
    """
    files: dict[str, tuple[str, Callable[[Path], Any]]] = {
        "config": (CONFIG, lambda path: read_yaml(path).values),
        "environment": ("environment.json", read_json),
        "rows": ("metrics.jsonl", read_metrics),
        "metrics": ("metrics.json", read_json),
        "events": ("events.jsonl", read_rows),
        "model": ("hf/road_ray.json", read_json),
    }
    found, problems = dict[str, Any](), list[str]()
    for part, (name, reader) in files.items():
        try:
            if (directory / name).is_file() and (content := reader(directory / name)):
                found[part] = content
        except (OSError, RoadError) as error:
            why = " ".join(str(error).splitlines()[:3])
            problems.append(f"{name} is damaged and left out: {why}")
    for part in found.keys() & {"config", "environment", "model"}:
        found[part] = redact(found[part])
    found["events"] = [redact(event) for event in found.get("events", ())]
    return RunRecord(directory, **found, problems=tuple(problems))


_DEEPEST = 8


def ancestors(run: RunRecord) -> list[tuple[str, str, ModelFacts]]:
    """Return ``(role, directory, facts)`` of ancestors and teachers, nearest first.

    The facts are those of ``road_ray.json``; they are empty if the directory is gone or the model
    came from the Hub.
    """
    models: list[tuple[str, str, ModelFacts]] = []
    place = str(run.model.get("init") or run.config.get("init") or "")
    while place and len(models) < _DEEPEST:
        facts = _facts_of(place, run.directory)
        models.append(("initialised from", place, facts))
        place = str(facts.get("init") or "")
    for number, teacher in enumerate(run.model.get("teachers") or ()):
        where = str(teacher.get("adapter") or teacher.get("directory", ""))
        sha256 = teacher.get("weights_sha256") or teacher.get("file_sha256", "")
        facts = _facts_of(where, run.directory) | {"weights_sha256": sha256}
        if "file_sha256" in teacher:
            facts["file"] = where
        models.append((f"teacher {number}", where, facts))
    return models


def _facts_of(place: str, run_directory: Path) -> ModelFacts:
    """Return the facts of the model at ``place``, as a run recorded it. A relative path starts at
    the working directory of the training, which is this one or one above the run.
    """
    above = [] if Path(place).is_absolute() else list(run_directory.resolve().parents)
    for start in (Path(), *above) if place else ():
        try:
            if (start / place).is_dir():
                records = [start / place / name for name in ("hf/road_ray.json", "road_ray.json")]
                found = next((path for path in records if path.is_file()), None)
                return redact(read_json(found)) if found else {"found": str(start / place)}
        except (OSError, RoadError):  # not the name of a directory, or a damaged record
            return {}
    return {}


def describe_model(facts: ModelFacts) -> str:
    """Return a description of a model in one line."""
    if not facts:
        return "not on this machine"
    if "file" in facts:
        return "answers in a file"
    if facts.get("corpus"):
        corpus = facts["corpus"]
        tokens, source = corpus.get("tokens", 0), str(corpus.get("source", "")).split(",")[0]
        return f"{facts.get('objective', 'pre-trained')} on {tokens:,} tokens of {source}"
    if not (sets := facts.get("datasets")):
        return "not made by road_ray" if "found" in facts else "no details"
    seed = f", seed {facts['seed']}" if facts.get("seed") is not None else ""
    return f"{'distilled' if facts.get('teachers') else 'trained'} on {', '.join(sets)}{seed}"
