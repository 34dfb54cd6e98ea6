"""Second copy of committed checkpoints on another storage (S3, Google Cloud, a path), from which a
run is restored if its machine and disk are lost. Fetched files are verified by their sha256 like
any other checkpoint, so a copy that was cut short is passed over.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from pyarrow import fs as arrow

from road_ray.errors import CheckpointError, ConfigError, ResourceError, first_line
from road_ray.system.files import staged_beside
from road_ray.system.remote_files import FAILURES, open_address
from road_ray.training.checkpoint.atomic_commit import step_of, verify

_log = logging.getLogger(__name__)


class RemoteCopy:
    """The copies of one run's checkpoints below ``url``; the newest ``keep`` are kept."""

    def __init__(self, url: str, *, keep: int = 2) -> None:
        self.url, self.keep = url.partition("?")[0], keep
        try:
            self._files, base = open_address(url)
        except (*FAILURES, ValueError, ImportError) as error:
            raise ConfigError(
                f"training.mirror = {self.url}: no storage of that address: {error}\n"
                "  allowed: s3://bucket/run, gs://bucket/run, file:///path, or a scheme of fsspec"
            ) from error
        self._base = base.rstrip("/")

    def push(self, directory: Path) -> None:
        """Copy a committed checkpoint and remove older copies beyond ``keep``.

        Raises ``ResourceError`` if the storage fails; earlier copies stay.
        """
        target = f"{self._base}/{directory.name}"
        try:
            self._files.create_dir(target, recursive=True)
            local = arrow.LocalFileSystem()
            arrow.copy_files(
                str(directory), target, source_filesystem=local, destination_filesystem=self._files
            )
            for name in self._names()[self.keep :]:
                self._files.delete_dir(f"{self._base}/{name}")
        except FAILURES as error:
            raise self._failed(error) from error

    def pull(
        self, root: Path, run: Mapping[str, Mapping[str, object]] | None = None
    ) -> Path | None:
        """Fetch the newest valid copy to ``root/step-NNNNNNNN`` and return its path; None if there
        are no copies. ``run`` has the entries ``configuration`` and ``identity`` that the copy's
        ``state.json`` must have.

        Raises ``ResourceError`` if all copies are damaged or the storage fails, and
        ``CheckpointError`` for a copy of another run.
        """
        damage = []
        for name in self._names():
            staged = staged_beside(root / name)
            try:
                self._fetch(name, staged / name)
                problems = verify(staged / name)
                if not problems:
                    if run is not None:
                        self._check_same(staged / name, run)
                    os.replace(staged / name, root / name)
                    return root / name
            except FAILURES as error:
                raise self._failed(error) from error
            finally:
                shutil.rmtree(staged, ignore_errors=True)
            damage.append(f"{name}: {'; '.join(problems)}")
            _log.warning("damaged copy skipped: %s/%s", self.url, damage[-1])
        if damage:
            raise ResourceError(
                f"{self.url}: every copy is damaged, and a run never starts afresh "
                "silently:" + "".join(f"\n    {line}" for line in damage) + "\n"
                "  fix: restore one, or leave training.mirror out\n  kept: all copies, untouched"
            )
        return None

    def _fetch(self, name: str, target: Path) -> None:
        """Copy all files of a remote checkpoint to ``target``."""
        source = f"{self._base}/{name}"
        for entry in self._files.get_file_info(arrow.FileSelector(source, recursive=True)):
            if ".." in entry.path.split("/"):
                raise OSError(f"{entry.path} leads out of its directory")
        target.mkdir(parents=True)
        local = arrow.LocalFileSystem()
        arrow.copy_files(
            source, str(target), source_filesystem=self._files, destination_filesystem=local
        )

    def _names(self) -> list[str]:
        """Return the names of the copies, the newest first."""
        selector = arrow.FileSelector(self._base, allow_not_found=True)
        try:
            entries = self._files.get_file_info(selector)
        except FAILURES as error:
            raise self._failed(error) from error
        copies = [Path(entry.path) for entry in entries if entry.base_name.startswith("step-")]
        return [path.name for path in sorted(copies, key=step_of, reverse=True)]

    def _check_same(self, copy: Path, run: Mapping[str, Mapping[str, object]]) -> None:
        state = json.loads((copy / "state.json").read_text(encoding="utf-8"))
        changed = ""
        for part, values in run.items():
            then, now = state.get(part, {}), json.loads(json.dumps(values))
            # A configuration key that only one of them knows is another version's.
            keys = then.keys() & now.keys() if part == "configuration" else then.keys() | now.keys()
            for key in sorted(key for key in keys if then.get(key) != now.get(key)):
                changed += f"\n    {key}: there {then.get(key)!r}, asked {now.get(key)!r}"
        if changed:
            raise CheckpointError(
                f"{self.url}/{copy.name}: is of another run:{changed}\n"
                "  fix: name another training.mirror, repeat the command that began that run, or "
                "delete its copies to start afresh\n  kept: all copies; nothing was fetched"
            )

    def _failed(self, error: BaseException) -> ResourceError:
        return ResourceError(
            f"{self.url}: the storage fails: {first_line(error)[:300]}\n"
            "  fix: check the address, the network and the credentials (AWS_* and the like)\n"
            "  kept: the checkpoints of the run directory and the copies made before"
        )
