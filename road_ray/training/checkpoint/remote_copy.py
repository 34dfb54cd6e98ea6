"""Second copy of committed checkpoints on another storage (S3, Google Cloud, a path), from which a
run is restored if its machine and disk are lost.

Object stores have no rename, so there ``MANIFEST.json``, written last, is the commit point. Fetched
files are verified by their sha256 like any other checkpoint.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyarrow import fs as arrow

from road_ray.errors import CheckpointError, ConfigError, ResourceError, first_line
from road_ray.system.remote_files import FAILURES, open_address
from road_ray.system.staging import staged_beside
from road_ray.training.checkpoint.atomic_commit import MANIFEST, verify

_log = logging.getLogger(__name__)
_STEP = re.compile(r"step-\d{8,}")


class RemoteCopy:
    """The copies of one run's checkpoints below ``url``; the newest ``keep`` are kept."""

    def __init__(self, url: str, *, keep: int = 2) -> None:
        self.url, self.keep = url, keep
        try:
            self._files, base = open_address(url)
        except (*FAILURES, ValueError, ImportError) as error:
            raise ConfigError(
                f"training.mirror = {_shown(url)}: no storage of that address: {error}\n"
                "  allowed: s3://bucket/run, gs://bucket/run, file:///path, or a scheme of fsspec"
            ) from error
        self._base = base.rstrip("/")

    def push(self, directory: Path) -> None:
        """Copy a committed checkpoint, its manifest last, and remove older copies beyond ``keep``.

        Raises ``ResourceError`` if the storage fails; earlier copies stay.
        """
        target = f"{self._base}/{directory.name}"
        try:
            paths = [path for path in directory.rglob("*") if path.is_file()]
            for path in sorted(paths, key=lambda path: path.name == MANIFEST):
                place = f"{target}/{path.relative_to(directory).as_posix()}"
                self._files.create_dir(place.rpartition("/")[0], recursive=True)
                with path.open("rb") as source, self._files.open_output_stream(place) as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
            for name in self._committed()[self.keep :]:
                # The manifest first: a partly removed copy must not look complete.
                self._files.delete_file(f"{self._base}/{name}/{MANIFEST}")
                self._files.delete_dir(f"{self._base}/{name}")
        except FAILURES as error:
            raise self._failed(error) from error

    def pull(self, root: Path, run: Mapping[str, object] | None = None) -> Path | None:
        """Fetch the newest valid copy to ``root/step-NNNNNNNN`` and return its path; None if there
        are no copies. ``run`` has the entries ``configuration`` and ``identity`` that the copy's
        ``state.json`` must have.

        Raises ``ResourceError`` if all copies are damaged or the storage fails, and
        ``CheckpointError`` for a copy of another run.
        """
        damage = []
        try:
            for name in self._committed():
                staged = staged_beside(root / name)
                try:
                    self._fetch(name, staged / name)
                    problems = verify(staged / name)
                    if not problems:
                        if run is not None:
                            self._check_same(staged / name, root, run)
                        os.replace(staged / name, root / name)
                        return root / name
                finally:
                    shutil.rmtree(staged, ignore_errors=True)
                damage.append(f"{name}: {'; '.join(problems)}")
                _log.warning("damaged copy skipped: %s/%s", _shown(self.url), damage[-1])
        except FAILURES as error:
            raise self._failed(error) from error
        if damage:
            raise ResourceError(
                f"{_shown(self.url)}: every copy is damaged, and a run never starts afresh "
                "silently:" + "".join(f"\n    {line}" for line in damage) + "\n"
                "  fix: restore one, or leave training.mirror out\n  kept: all copies, untouched"
            )
        return None

    def _check_same(self, copy: Path, root: Path, run: Mapping[str, object]) -> None:
        then = json.loads((copy / "state.json").read_text(encoding="utf-8"))
        place = f"{_shown(self.url)}/{copy.name}"
        if "configuration" not in then:
            raise CheckpointError(
                f"{place}: an earlier version wrote it without recording its run\n"
                f"  fix: copy it into {root} if it is of this run, else name another "
                "training.mirror\n  kept: all copies; nothing was fetched"
            )
        if changed := [*_differences(then, run)]:
            raise CheckpointError(
                f"{place}: is of another run:{''.join(changed)}\n"
                "  fix: name another training.mirror, repeat the command that began that run, or "
                "delete its copies to start afresh\n  kept: all copies; nothing was fetched"
            )

    def _fetch(self, name: str, target: Path) -> None:
        """Copy all files of a remote checkpoint to ``target``."""
        place = f"{self._base}/{name}"
        for entry in self._files.get_file_info(arrow.FileSelector(place, recursive=True)):
            inside = entry.path[entry.path.index(f"/{name}/") + len(name) + 2 :]
            path = target / inside
            if not path.resolve().is_relative_to(target.resolve()):
                raise OSError(f"{entry.path} leads out of its directory")
            if entry.type != arrow.FileType.File:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._files.open_input_stream(entry.path) as source, path.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)

    def _committed(self) -> list[str]:
        """Return the names of the copies that have a manifest, the newest first."""
        selector = arrow.FileSelector(self._base, allow_not_found=True)
        entries = [entry.base_name for entry in self._files.get_file_info(selector)]
        names = sorted(
            (name for name in entries if _STEP.fullmatch(name)), key=_number, reverse=True
        )
        manifests = [f"{self._base}/{name}/{MANIFEST}" for name in names]
        infos = self._files.get_file_info(manifests)
        return [
            name
            for name, info in zip(names, infos, strict=True)
            if info.type == arrow.FileType.File
        ]

    def _failed(self, error: BaseException) -> ResourceError:
        return ResourceError(
            f"{_shown(self.url)}: the storage fails: {first_line(error)[:300]}\n"
            "  fix: check the address, the network and the credentials (AWS_* and the like)\n"
            "  kept: the checkpoints of the run directory and the copies made before"
        )


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each key in which two runs differ."""
    now = json.loads(json.dumps(now))
    for part in ("configuration", "identity"):
        keys = {*then[part], *now[part]}
        if part == "configuration":  # a key that only one of them knows is another version's
            keys = then[part].keys() & now[part].keys()
        for key in sorted(keys):
            old, new = then[part].get(key), now[part].get(key)
            if old != new:
                yield f"\n    {key}: there {old!r}, asked {new!r}"


def _number(name: str) -> int:
    return int(name.removeprefix("step-"))


def _shown(url: str) -> str:
    """Return the address without its query."""
    return url.partition("?")[0]
