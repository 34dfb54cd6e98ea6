"""The embedded data set: an encyclopaedia, GLUE, SQuAD and NewsQA files about a made-up world.

``world.tar.xz`` holds them in the published layouts, so that the readers treat them as real data.
``tools/miniature`` in the repository generates the archive. Start reading at ``cached``.
"""

import os
import tarfile
import tempfile
from pathlib import Path

from road_ray.errors import ResourceError
from road_ray.system.files import CACHE, cache_home

VERSION = 2
ARCHIVE = Path(__file__).with_name("world.tar.xz")


def cached() -> Path:
    """Return the data root below ``ROAD_CACHE`` (or ``~/.cache/road_ray``); unpack it if missing.

    Processes that need it at the same time never see a part of it: each unpacks a copy of its own,
    and the first to finish renames its copy into place.
    """
    root = cache_home() / f"miniature-v{VERSION}"
    if root.is_dir():
        return root
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{root.name}-", dir=root.parent) as staging:
            with tarfile.open(ARCHIVE) as archive:
                archive.extractall(Path(staging) / "world", filter="data")
            os.rename(Path(staging) / "world", root)
    except OSError as error:
        if not root.is_dir():  # else another process was faster
            raise ResourceError(
                f"The embedded data set cannot be unpacked: {error}\n"
                f"  fix: {CACHE}=a writable directory with 5 MB of free space"
            ) from error
    return root
