"""Recorded configuration of a run directory with the keys that may differ on resuming, and manifest
of a finished run: the sha256 of its files in ``MANIFEST.json``, which is verified. The manifest of
a run that consists of other runs covers those too.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, TypeAdapter

from road_ray.config import Config, InvalidConfig, flatten, load, read_yaml, to_dict
from road_ray.config.base import Extends, FreeOnResume, marked
from road_ray.config.schema import Key, at
from road_ray.errors import ConfigError
from road_ray.recipes.run_directory.input_files import changed_inputs, read_own
from road_ray.system.files import hashes_of, problems_of, write_json_atomic
from road_ray.training.checkpoint_directory import MANIFEST

C = TypeVar("C", bound=Config)
RECORD = "config.resolved.yaml"  # of every run directory


def load_recorded(kind: type[C], path: Path) -> C:
    """Return the configuration in ``path``, which an earlier command wrote. Keys of null, of an
    empty list or of an empty mapping that are gone had no effect.

    Raises ``ConfigError`` with every other key that this version of road_ray does not read.
    """
    try:
        return load(kind, path=path)
    except InvalidConfig as error:
        with suppress(InvalidConfig):
            return load(kind, base=known_values(kind, read_yaml(path).values))
        keys = "".join(f"\n    {problem.where}  {problem.message}" for problem in error.problems)
        raise ConfigError(
            f"{path} was not written by this version of road_ray, or was changed since:{keys}\n"
            "  fix: name another run_dir, or resume with the version that began this one\n"
            f"  kept: everything in {path.parent}, as it is"
        ) from None


def known_values(kind: type[Config], values: Mapping[str, Any], above: Key = ()) -> dict[str, Any]:
    """Return the values without those of null or without content that no key of the class has."""
    return {
        name: known_values(kind, value, (*above, name)) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value not in (None, [], {}) or at(kind, (*above, name)) is not None
    }


def require_same(config: Config, run_dir: Path, record: str = RECORD) -> bool:
    """Return True if the run or sweep in ``run_dir`` has another value of a key with the mark
    ``Extends``, such as fewer seeds. Raises ``ConfigError`` with every other key that differs and
    that is not free on resuming.
    """
    recorded = flatten(to_dict(load_recorded(type(config), run_dir / record)))
    now = flatten(to_dict(config))
    extends = tuple(f"{key}." for key in marked(config, Extends))  # keys, and sections of them
    free = (*extends, *(f"{key}." for key in marked(config, FreeOnResume)))
    differing = [key for key in sorted({*recorded, *now}) if recorded.get(key) != now.get(key)]
    changed = [key for key in differing if not f"{key}.".startswith(free)]
    if changed:
        lines = "".join(
            f"\n    {key}: there {recorded.get(key)!r}, asked {now.get(key)!r}" for key in changed
        )
        trained = (run_dir / "hf").is_dir()
        further = f" (with init={run_dir} it trains that model further)" if trained else ""
        raise ConfigError(
            f"run_dir = {run_dir} holds a run of another configuration, by its {record}:{lines}\n"
            f"  fix: name another run_dir{further}, or repeat the command that began this one\n"
            "  kept: that run, as it is"
        )
    return any(f"{key}.".startswith(extends) for key in differing)


class _Manifest(BaseModel):
    format: Literal[1] = 1
    files: dict[str, dict[str, int | str]] = {}
    runs: list[str] = []


_MANIFEST = TypeAdapter(_Manifest)


def seal(run_dir: Path) -> None:
    """Write the manifest of a finished run, with the finished runs inside it."""
    results = ("metrics.json", "teachers.json", "table.json")
    paths = [run_dir / name for name in results if (run_dir / name).is_file()]
    for folder in ("hf", "predictions"):
        below = (path for path in (run_dir / folder).rglob("*") if path.is_file())
        # Without those that people edit, and those that a killed process was about to rename.
        paths += sorted(p for p in below if p.suffix != ".md" and not p.name.startswith("."))
    trained = (run_dir / "metrics.jsonl").is_file()
    inner = [] if trained else sorted(path.parent for path in run_dir.glob(f"[!.]*/**/{RECORD}"))
    runs = [run.relative_to(run_dir).as_posix() for run in inner if (run / MANIFEST).is_file()]
    manifest = _Manifest(files=hashes_of(run_dir, paths), runs=runs)
    write_json_atomic(run_dir / MANIFEST, manifest.model_dump())


def damage(run_dir: Path) -> list[str]:
    """Return a line for each damaged file of a finished run, and for each changed input of a run
    inside it; none for a run without a manifest.
    """
    without = "the files of the run are no longer verified"
    manifest = read_own(run_dir / MANIFEST, _MANIFEST, without)
    problems = problems_of(run_dir, manifest.files)
    for name in manifest.runs:
        if not (run_dir / name / MANIFEST).is_file():
            problems.append(f"{name}/{MANIFEST} is missing")
        problems += [f"{name}/{line}" for line in damage(run_dir / name)]
        problems += changed_inputs(run_dir / name)
    return problems
