"""A Ray cluster on this machine for the tests that need one, while other work may run beside it."""

import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil
from xdist.scheduler import LoadFileScheduling

from road_ray.distributed.connection import prepare_address


def processes_with(variable: str) -> dict[int, str]:
    """Command lines of the processes that have ``NAME=VALUE`` in their environment."""
    processes = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable.encode() in (place / "environ").read_bytes().split(b"\0"):
                command = (place / "cmdline").read_bytes().decode(errors="replace")
                processes[int(place.name)] = " ".join(command.replace("\0", " ").split())
    return processes


def alive(pid: int) -> bool:
    """Whether a process has not ended; a zombie has, and waits for its parent."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until(what: Callable[[], Any], seconds: float, every: float = 0.1) -> bool:
    """Whether ``what()`` comes true within so many seconds."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


def short_directory(within: str = "/tmp") -> tempfile.TemporaryDirectory[str]:
    """A directory for Ray's files, removed at the end: sockets have a limit to their path."""
    return tempfile.TemporaryDirectory(prefix="rr", dir=within, ignore_cleanup_errors=True)


def make_address_directory() -> None:
    """Make the directory into which ``ray.cluster_utils.Cluster`` writes its address: it does not
    do so itself when it has a ``temp_dir``.
    """
    from ray._private.utils import get_ray_address_file

    Path(get_ray_address_file(None)).parent.mkdir(parents=True, exist_ok=True)


@contextmanager
def own_cluster(num_cpus: int, within: str = "/tmp", **options: Any) -> Iterator[Any]:
    """Inside, this process is joined to a cluster of so many logical cores that is its own; gives
    Ray. ``options`` are those of ``ray.init``.
    """
    # Our 15 s are for lost machines; crowded ones take longer to start a group.
    os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = "60"
    prepare_address(None)
    import ray

    with short_directory(within) as place:
        arguments = {"include_dashboard": False, "object_store_memory": 100 * 2**20} | options
        for left in (2, 1, 0):  # they may take more than Ray's 30 s for a whole cluster, too
            try:
                ray.init(address="local", num_cpus=num_cpus, _temp_dir=place, **arguments)
                break
            except Exception:
                ray.shutdown()
                if not left:
                    raise
        try:
            yield ray
        finally:
            ray.shutdown()


# Detached by Ray Train until the cluster stops: its cleaner asks the dashboard whether the
# controller is gone.
_ACTORS_OF_RAY = {"AutoscalingCoordinator", "PlacementGroupCleaner"}
_ACTORS_OF_RAY |= {"ActorLocationTracker", "datasets_stats_actor"}  # detached by Ray Data


def occupants() -> Counter[str]:
    """Living actors of the joined cluster by class and name, and its placement groups."""
    import ray
    from ray.util import placement_group_table

    counts = Counter(
        f"actor {item['ActorClassName']} {item['Name']}".strip()
        for item in ray._private.state.actors().values()
        if item["State"] != "DEAD" and not _ACTORS_OF_RAY & {item["Name"], item["ActorClassName"]}
    )
    groups = [item for item in placement_group_table().values() if item["state"] != "REMOVED"]
    counts["placement group"] = len(groups)
    return counts


def new_occupants(before: Counter[str], seconds: float) -> Counter[str]:
    """What has come to the cluster since ``before`` and does not go within some seconds."""
    until(lambda: not occupants() - before, seconds, 0.2)
    return occupants() - before


class OneClusterScheduling(LoadFileScheduling):
    """Scheduler of pytest-xdist that gives a file's tests to one process; to the same one go all
    files whose tests take the fixture ``cluster`` or ``shared_cluster``, and all that train in
    pairs: the server that forks these has imported torch.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _scope(Path(nodeid.split("::", 1)[0]))


@cache
def _scope(path: Path) -> str:
    words = re.compile(r"def \w+\([^)]*\b(shared_)?cluster\b(?!:)|usefixtures\([^)]*cluster")
    text = path.read_text(encoding="utf-8")
    if words.search(text):
        return "cluster"
    return "pairs" if "from tests.pair import" in text else str(path)
