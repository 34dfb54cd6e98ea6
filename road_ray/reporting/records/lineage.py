"""Lineage of a model back to its corpus, as far as its ancestors still exist."""

from __future__ import annotations

from pathlib import Path

from road_ray.errors import RoadError
from road_ray.reporting.records.run_record import ModelFacts, RunRecord
from road_ray.system.files import read_json
from road_ray.training.monitoring.redaction import redact

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
        where = str(teacher.get("directory", ""))
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
    sets = ", ".join(facts.get("datasets") or ())
    how = "distilled on" if facts.get("teachers") else "trained on"
    seed = f", seed {facts['seed']}" if facts.get("seed") is not None else ""
    if not sets:
        return "not made by road_ray" if "found" in facts else "no details"
    return f"{how} {sets}{seed}"
