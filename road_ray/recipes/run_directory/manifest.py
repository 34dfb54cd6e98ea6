"""Manifest of a finished run: the sha256 of its files in ``MANIFEST.json``, and their verification.
The manifest of a run that consists of other runs covers those too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from road_ray.errors import CheckpointError
from road_ray.recipes.run_directory.input_files import changed_inputs
from road_ray.system.file_hashes import hashes_of, problems_of
from road_ray.system.json_file import read_json, write_json_atomic
from road_ray.training.checkpoint.atomic_commit import MANIFEST, REMOVED, Checkpoints

_FORMAT = 1
_FILES = ("metrics.json", "teachers.json", "tasks.json", "table.json")
_FOLDERS = ("hf", "predictions")
_REMOVED_BY = " (training.keep_checkpoints_at_end=1 keeps one of later runs)"
_REMEDY = "delete it, and the files of the run are no longer verified"


def seal(run_dir: Path, record: str) -> None:
    """Write the manifest of a finished run; ``record`` is the name of the file that marks the run
    directories inside it.
    """
    paths = [run_dir / name for name in _FILES if (run_dir / name).is_file()]
    for folder in _FOLDERS:
        below = (path for path in (run_dir / folder).rglob("*") if path.is_file())
        # Without those that people edit, and those that a killed process was about to rename.
        paths += sorted(p for p in below if p.suffix != ".md" and not p.name.startswith("."))
    trained = (run_dir / "metrics.jsonl").is_file()
    inner = [] if trained else sorted(path.parent for path in run_dir.glob(f"[!.]*/**/{record}"))
    body = {
        "format": _FORMAT,
        "trained": trained,
        "files": hashes_of(run_dir, paths),
        "runs": [r.relative_to(run_dir).as_posix() for r in inner if (r / MANIFEST).is_file()],
    }
    write_json_atomic(run_dir / MANIFEST, body)


def damage(run_dir: Path) -> list[str]:
    """Return a line for each damaged file of a finished run, and for each changed input of a run
    inside it; none for a run without a manifest.
    """
    manifest = _manifest(run_dir)
    problems = problems_of(run_dir, manifest["files"])
    for name in manifest["runs"]:
        inner = run_dir / name
        if not (inner / MANIFEST).is_file():
            problems.append(f"{name}/{MANIFEST} is missing")
            continue
        problems += [f"{name}/{line}" for line in problems_of(inner, _manifest(inner)["files"])]
        problems += changed_inputs(inner)
    return problems


def require_source(run_dir: Path, problems: list[str]) -> None:
    """Raise ``CheckpointError`` if a trained model is damaged and there is no checkpoint to export
    it from again.
    """
    place = run_dir / "checkpoints"
    removed = (place / REMOVED).is_file() and not any(place.glob("step-*"))
    if _manifest(run_dir).get("trained") and (removed or Checkpoints(place).newest() is None):
        lines = "".join(f"\n    {run_dir}/{problem}" for problem in problems)
        raise CheckpointError(
            f"{run_dir} is finished, and its files differ from its {MANIFEST}:{lines}\n"
            "  fix: restore them, or give another run_dir to train again; there is no checkpoint "
            f"to make them from{_REMOVED_BY if removed else ''}\n  kept: that run, as it is"
        )


def require_whole_weights(model: str) -> None:
    """Raise ``CheckpointError`` if ``model`` is a finished run, a checkpoint, or ``hf/`` of one,
    and its weights are damaged.
    """
    place = Path(model).expanduser()
    run_dir = place.parent if place.name == "hf" else place
    if not (run_dir / "hf").is_dir():
        return
    manifest = _manifest(run_dir)
    files = manifest["files"]
    weights = {n: e for n, e in files.items() if n.startswith("hf/") and n.endswith(".safetensors")}
    if problems := problems_of(run_dir, weights):
        lost = manifest.get("trained") and not any(run_dir.glob("checkpoints/step-*"))
        remedy = "train it again in another run_dir; there is no checkpoint to make it from"
        again = "repeat the command that trained it, which makes it again from its checkpoint"
        raise CheckpointError(
            f"{run_dir / problems[0]}\n  fix: restore it, or {remedy if lost else again}"
        )


def _manifest(run_dir: Path) -> dict[str, Any]:
    path = run_dir / MANIFEST
    if not path.is_file():
        return {"files": {}, "runs": []}
    manifest = read_json(path, fix=_REMEDY)
    files, runs = manifest.get("files"), manifest.setdefault("runs", [])
    good = (
        manifest.get("format") == _FORMAT
        and isinstance(files, dict)
        and all(isinstance(e, dict) and {"bytes", "sha256"} <= set(e) for e in files.values())
        and isinstance(runs, list)
        and all(isinstance(name, str) for name in runs)
    )
    if not good:
        raise CheckpointError(f"{path}: not the manifest of a finished run\n  fix: {_REMEDY}")
    return manifest
