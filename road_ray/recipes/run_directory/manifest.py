"""Manifest of a finished run: the sha256 of its files in ``MANIFEST.json``, and their verification.
The manifest of a run that consists of other runs covers those too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from road_ray.errors import CheckpointError
from road_ray.recipes.run_directory.input_files import changed_inputs
from road_ray.recipes.run_directory.recorded_config import RECORD
from road_ray.system.file_hashes import hashes_of, problems_of
from road_ray.system.json_file import write_json_atomic
from road_ray.training.checkpoint.atomic_commit import MANIFEST

_FILES = ("metrics.json", "teachers.json", "table.json")
_FOLDERS = ("hf", "predictions")


class _Manifest(BaseModel):
    format: Literal[1]
    files: dict[str, dict[str, int | str]]
    runs: list[str] = []


def seal(run_dir: Path) -> None:
    """Write the manifest of a finished run, with the finished runs inside it."""
    paths = [run_dir / name for name in _FILES if (run_dir / name).is_file()]
    for folder in _FOLDERS:
        below = (path for path in (run_dir / folder).rglob("*") if path.is_file())
        # Without those that people edit, and those that a killed process was about to rename.
        paths += sorted(p for p in below if p.suffix != ".md" and not p.name.startswith("."))
    trained = (run_dir / "metrics.jsonl").is_file()
    inner = [] if trained else sorted(path.parent for path in run_dir.glob(f"[!.]*/**/{RECORD}"))
    runs = [run.relative_to(run_dir).as_posix() for run in inner if (run / MANIFEST).is_file()]
    manifest = _Manifest(format=1, files=hashes_of(run_dir, paths), runs=runs)
    write_json_atomic(run_dir / MANIFEST, manifest.model_dump())


def damage(run_dir: Path) -> list[str]:
    """Return a line for each damaged file of a finished run, and for each changed input of a run
    inside it; none for a run without a manifest.
    """
    manifest = _read(run_dir)
    problems = problems_of(run_dir, manifest.files)
    for name in manifest.runs:
        if not (run_dir / name / MANIFEST).is_file():
            problems.append(f"{name}/{MANIFEST} is missing")
        problems += [f"{name}/{line}" for line in damage(run_dir / name)]
        problems += changed_inputs(run_dir / name)
    return problems


def require_whole_weights(model: str) -> None:
    """Raise ``CheckpointError`` if ``model`` is a finished run, a checkpoint, or ``hf/`` of one,
    and its weights are damaged.
    """
    place = Path(model).expanduser()
    run_dir = place.parent if place.name == "hf" else place
    if not (run_dir / "hf").is_dir():
        return
    files = _read(run_dir).files
    weights = {n: e for n, e in files.items() if n.startswith("hf/") and n.endswith(".safetensors")}
    if problems := problems_of(run_dir, weights):
        raise CheckpointError(
            f"{run_dir / problems[0]}\n  fix: restore it, or train it again in another run_dir"
        )


def _read(run_dir: Path) -> _Manifest:
    path = run_dir / MANIFEST
    if not path.is_file():
        return _Manifest(format=1, files={})
    try:
        return _Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise CheckpointError(
            f"{path}: not the manifest of a finished run: {error}\n"
            "  fix: delete it, and the files of the run are no longer verified"
        ) from error
