"""Profiles of clusters: the address and the resources of jobs beyond Ray's cluster files.

``Profile`` is a ``*.profile.yaml`` beside a cluster file, whose own format has no room for it;
``load_profile`` finds it by name. ``distributed/jobs/job_client.py`` consumes it.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from road_ray.config import Config, load
from road_ray.errors import ConfigError, nearest

SHIPPED = Path(__file__).parents[2] / "clusters"
_ENDING = ".profile.yaml"


class Profile(Config):
    """Access to a cluster and the resources of a job there: a ``*.profile.yaml``."""

    address: str = "http://127.0.0.1:8265"
    """Address of the cluster's dashboard as seen from this machine, usually the near end of a
    tunnel (``ray dashboard``, ``kubectl port-forward``)."""
    entry_cpus: float = Field(1.0, ge=0)
    """Number of cores that are reserved for the ``road`` process itself, beside those of its
    workers."""
    driver_on_head: bool = False
    """Run the ``road`` process on the head, which outlives workers on spot machines. The head needs
    ``entry_cpus`` cores for jobs, or they wait forever. False: Ray chooses a machine."""
    scale_up_seconds: float = Field(0.0, ge=0)
    """Longest wait of a job for machines that the cluster adds, in seconds. 0: the cluster adds
    none, and a job without room fails at once."""
    workers: int | None = Field(None, ge=0)
    """Value of ``--workers`` for jobs that give no workers, GPUs or several runs. None: the verb's
    default."""
    gpus_per_worker: float | None = Field(None, ge=0)
    """Value of ``--gpus-per-worker`` for the same jobs. None: the verb's default."""
    run_root: str | None = None
    """Directory on a disk that all machines share, below which relative run directories are placed.
    None: run directories stay as they are given."""
    exclude: tuple[str, ...] = ()
    """Patterns of tracked files that are not uploaded with a job, such as ``docs/*``. Empty: all
    tracked files are. Ray's limit is 100 MiB."""


def load_profile(cluster: str) -> Profile:
    """Return the profile of a shipped cluster (``aws``), of a cluster file with a
    ``*.profile.yaml`` beside it, of such a profile, or of an address.

    Raises ``ConfigError`` with the nearest name if there is none.
    """
    if cluster.startswith(("http://", "https://")):
        return load(Profile, base={"address": cluster})
    path = Path(cluster).expanduser()
    for place in (path, SHIPPED / cluster, SHIPPED.parent / cluster):
        profile = place.with_name(place.name.removesuffix(_ENDING).removesuffix(".yaml") + _ENDING)
        if profile.is_file():
            return load(Profile, path=profile)
    if path.is_file():
        raise ConfigError(
            f"{path}: has no settings for submitting jobs\n"
            f"  fix: put {path.name.removesuffix('.yaml')}{_ENDING} beside it, with at least "
            "`address: http://127.0.0.1:8265`"
        )
    raise _unknown(cluster, ", a file, or http://host:port of a dashboard\n  nothing was sent")


def cluster_files(cluster: str) -> list[Path]:
    """Return the files of a shipped cluster: Ray's or KubeRay's own, and the profile beside it.

    Raises ``ConfigError`` with the nearest name if there is none.
    """
    name = cluster.removeprefix("clusters/").removesuffix(".yaml")
    places = [SHIPPED / f"{name}.yaml", SHIPPED / f"{name}{_ENDING}"]
    if paths := [place for place in places if place.is_file()]:
        return paths
    raise _unknown(name)


def _unknown(cluster: str, more: str = "") -> ConfigError:
    names = shipped_clusters()
    near = nearest(Path(cluster).name.removesuffix(".yaml"), names)
    return ConfigError(
        f"--cluster {cluster}: no shipped cluster or file of that name"
        + (f"; did you mean {near!r}?" if near else "")
        + f"\n  allowed: {', '.join(names)}{more}"
    )


def shipped_clusters() -> list[str]:
    """Return the names of the shipped clusters."""
    profiles = SHIPPED.rglob(f"*{_ENDING}")
    return sorted(str(p.relative_to(SHIPPED)).removesuffix(_ENDING) for p in profiles)
