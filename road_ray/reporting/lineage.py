"""Where a model comes from, back to its corpus: every ancestor that can still be found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from road_ray.reporting.pages.page import Block, Cell, Table
from road_ray.reporting.record_schema import model_facts
from road_ray.reporting.run_record import RunRecord
from road_ray.training.monitoring.secrets import redact

_DEEPEST = 8


def ancestry(run: RunRecord) -> list[Block]:
    """A table: this model, what it was initialised from, and so on; then its teachers."""
    if not run.told and not run.config.get("init"):
        return []
    rows = [_row("this model", str(run.directory), run.told)]
    rows += [_row(role, place, told) for role, place, told in ancestors(run)]
    return [Table(["", "where", "what", "weights"], rows)]


def ancestors(run: RunRecord) -> list[tuple[str, str, Mapping[str, Any]]]:
    """``(role, where, what its road_ray.json tells)`` of parents and teachers, nearest first.

    One that is no longer there, or came from a hub, tells nothing.
    """
    found: list[tuple[str, str, Mapping[str, Any]]] = []
    place = str(run.told.get("init") or run.config.get("init") or "")
    while place and len(found) < _DEEPEST:
        told = read_model_record(Path(place))
        found.append(("initialised from", place, told))
        place = str(told.get("init") or "")
    for number, teacher in enumerate(run.told.get("teachers") or ()):
        where = str(teacher.get("directory", ""))
        told = read_model_record(Path(where)) | {
            "weights_sha256": teacher.get("weights_sha256", "")
        }
        found.append((f"teacher {number}", where, told))
    return found


def read_model_record(directory: Path) -> dict[str, Any]:
    """What a run or model directory says of its model; nothing where it says nothing."""
    for path in (directory / "hf" / "road_ray.json", directory / "road_ray.json"):
        try:
            if path.is_file():
                told = json.loads(path.read_text(encoding="utf-8"))
                return model_facts(redact(told)) if isinstance(told, dict) else {}
        except (OSError, ValueError, RecursionError):
            return {}
    return {}


def describe_model(told: Mapping[str, Any]) -> str:
    """One model in a line."""
    if not told:
        return "not found here"
    if told.get("corpus"):
        corpus = told["corpus"]
        tokens, source = corpus.get("tokens", 0), str(corpus.get("source", "")).split(",")[0]
        return f"{told.get('objective', 'pre-trained')} on {tokens:,} tokens of {source}"
    sets = ", ".join(told.get("datasets") or ())
    how = "distilled on" if told.get("teachers") else "trained on"
    seed = f", seed {told['seed']}" if told.get("seed") is not None else ""
    return f"{how} {sets}{seed}" if sets else "no details"


def _row(role: str, where: str, told: Mapping[str, Any]) -> list[Cell | str | None]:
    return [role, where, describe_model(told), str(told.get("weights_sha256") or "")[:12] or None]
