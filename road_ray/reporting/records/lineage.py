"""Lineage of a model back to its corpus, as far as its ancestors still exist."""

from __future__ import annotations

from pathlib import Path

from road_ray.reporting.pages.page import Block, Cell, Table
from road_ray.reporting.records.run_record import ModelFacts, RunRecord, model_facts

_DEEPEST = 8


def lineage_table(run: RunRecord) -> list[Block]:
    """Return a table of this model, its ancestors and its teachers."""
    if not run.model and not run.config.get("init"):
        return []
    rows = [_row("this model", str(run.directory), run.model)]
    rows += [_row(role, place, facts) for role, place, facts in ancestors(run)]
    return [Table(["", "where", "what", "weights"], rows)]


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
        facts = _facts_of(where, run.directory) | {
            "weights_sha256": teacher.get("weights_sha256", "")
        }
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
                return read_model_record(start / place) or {"found": str(start / place)}
        except OSError:  # not the name of a directory
            return {}
    return {}


def read_model_record(directory: Path) -> ModelFacts:
    """Return the facts in the ``road_ray.json`` of a run or model directory; empty if none."""
    for path in (directory / "hf" / "road_ray.json", directory / "road_ray.json"):
        try:
            if path.is_file():
                return model_facts(path)
        except (OSError, ValueError, RecursionError):
            return {}
    return {}


def describe_model(facts: ModelFacts) -> str:
    """Return a description of a model in one line."""
    if not facts:
        return "not on this machine"
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


def _row(role: str, where: str, facts: ModelFacts) -> list[Cell | str | None]:
    return [role, where, describe_model(facts), str(facts.get("weights_sha256") or "")[:12] or None]
