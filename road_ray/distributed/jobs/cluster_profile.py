"""Cluster profiles: shipped cluster files and the settings that ``road submit`` needs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from road_ray.config import Config, load
from road_ray.errors import ConfigError, nearest

SHIPPED = Path(__file__).parents[2] / "clusters"
_ENDING = ".profile.yaml"


class Profile(Config):
    """Settings for submitting jobs to a cluster."""

    address: str = "http://127.0.0.1:8265"
    """Of the cluster's dashboard, as this machine sees it; mostly the near end of a tunnel."""
    environment: Literal["none", "uv", "pip"] = "none"
    """none: the machines have road_ray and its pins; uv, pip: installed from constraints.txt for
    every job (road_ray itself comes with the working directory).
    """
    entry_cpus: float = Field(1.0, ge=0)
    """Cores that are held for the ``road`` process itself, beside those of its workers."""
    entry_memory_gib: float = Field(0.0, ge=0)
    workers: int | None = Field(None, ge=0)
    """``--workers`` of a job that names none."""
    gpus_per_worker: float | None = Field(None, ge=0)
    run_root: str | None = None
    """A directory that all machines share; relative run directories are put below it."""
    exclude: tuple[str, ...] = ()
    """Patterns of tracked files that are not sent."""
    open_cluster: bool = False
    """True: a cluster that lets everybody in is accepted (``--i-know-this-is-open``)."""


def load_profile(cluster: str) -> Profile:
    """Return the profile of a shipped cluster (``aws``), of a cluster file with a
    ``*.profile.yaml`` beside it or an ``x-road`` section in it, or of an address.

    Raises ``ConfigError`` with the nearest name if there is none.
    """
    if cluster.startswith(("http://", "https://")):
        return load(Profile, base={"address": cluster})
    path = Path(cluster).expanduser()
    for place in (path, SHIPPED / cluster, SHIPPED / f"{cluster}.yaml", SHIPPED.parent / cluster):
        beside = place.with_name(place.name.removesuffix(".yaml") + _ENDING)
        if place.is_file() and (place.name.endswith(_ENDING) or not beside.is_file()):
            return _within(place)
        if beside.is_file():
            return load(Profile, path=beside)
    names = shipped_clusters()
    near = nearest(path.name.removesuffix(".yaml"), names)
    raise ConfigError(
        f"--cluster {cluster}: no such file or shipped cluster"
        + (f"; did you mean {near!r}?" if near else "")
        + f"\n  allowed: {', '.join(names)}, a file, or http://host:port of a dashboard\n"
        "  nothing was sent"
    )


def shipped_clusters() -> list[str]:
    """Return the names of the shipped clusters."""
    profiles = SHIPPED.rglob(f"*{_ENDING}")
    return sorted(str(p.relative_to(SHIPPED)).removesuffix(_ENDING) for p in profiles)


def _within(path: Path) -> Profile:
    """Return the profile in a profile file, or in the ``x-road`` section of a cluster file."""
    from road_ray.config import yaml as yaml_lines

    if path.name.endswith(_ENDING):
        return load(Profile, path=path)
    values = yaml_lines.read_yaml(path).values
    section = values.get("x-road")
    if not isinstance(section, dict):
        raise ConfigError(
            f"{path}: has no settings for submitting jobs\n"
            f"  fix: put {path.name.removesuffix('.yaml')}{_ENDING} beside it, with at least "
            "`address: http://127.0.0.1:8265`"
        )
    return load(Profile, base=section)
