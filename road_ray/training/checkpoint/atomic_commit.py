"""Atomic checkpoints: staged, hashed and renamed into place; damage is detected.

The caller writes the files (``serialization.py`` has tensors and optimizers). The commit point is
the rename of a directory whose ``MANIFEST.json`` names every file with its sha256.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from road_ray.errors import CheckpointError, ResourceError
from road_ray.system.file_hashes import hashes_of, problems_of
from road_ray.system.json_file import write_json_atomic
from road_ray.system.operating_system import sync
from road_ray.system.staging import is_abandoned, staged_beside

OnEvent = Callable[[dict[str, Any]], None]
FORMAT = 1
MANIFEST = "MANIFEST.json"
REMOVED = "removed.json"  # instead of the checkpoints of a finished run
_COMMITTED = re.compile(r"step-(\d{8,})")
_REMEDIES = {
    errno.ENOSPC: "free space there, or keep fewer checkpoints",
    errno.EDQUOT: "raise the quota, or keep fewer checkpoints",
    errno.EFBIG: "raise the limit on file size (ulimit -f)",
    errno.EACCES: "give this user the right to write there, or choose another run directory",
    errno.EPERM: "give this user the right to write there, or choose another run directory",
    errno.EROFS: "choose another run directory; this file system is read-only",
    errno.EIO: "choose another run directory; the device reports errors",
}
_log = logging.getLogger(__name__)


class Checkpoints:
    """The committed checkpoints of one run, ``root/step-NNNNNNNN``, written by one process.

    ``on_event`` receives ``{"kind": ..., ...}`` when a damaged checkpoint is skipped.
    """

    def __init__(self, root: Path, *, keep: int = 2, on_event: OnEvent | None = None) -> None:
        if keep < 1:
            raise ValueError(f"keep={keep}: at least one checkpoint must be kept")
        self.root, self.keep, self._on_event = Path(root), keep, on_event
        self._last_bytes = 0

    def prepare(self, expected_bytes: int | None = None) -> None:
        """Create the directory, remove leftovers of killed processes, and check that it is writable
        and has room. Called by ``save``, and once before training.

        Raises ``ResourceError`` otherwise.
        """
        need = int(1.2 * (self._last_bytes if expected_bytes is None else expected_bytes))
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
            self._sweep()
            if shutil.disk_usage(self.root).free < need:
                raise OSError(errno.ENOSPC, "too little space for a checkpoint")
        except OSError as error:
            raise self._write_error(error, need) from error

    def save(
        self, step: int, write: Callable[[Path], None], *, expected_bytes: int | None = None
    ) -> Path:
        """Commit a checkpoint filled by ``write(directory)``, prune older ones, and return its
        directory. A valid checkpoint of that step is left as it is.

        Raises ``ResourceError`` for errors of the disk; a failed checkpoint is removed.
        """
        final = self.root / f"step-{step:08d}"
        if final.exists() and not verify(final):
            self._sweep()
            self._prune(final)
            return final
        self.prepare(expected_bytes)
        staged = staged_beside(final)
        try:
            staged.mkdir()
            write(staged)
            self._last_bytes = _seal(staged, step)
            if final.exists():  # damaged, see above
                _discard(final)
            os.rename(staged, final)
            sync(self.root)
        except BaseException as error:
            shutil.rmtree(staged, ignore_errors=True)
            if disk_error(error) is None:
                raise
            raise self._write_error(error, expected_bytes or self._last_bytes) from error
        self._prune(final)
        return final

    def retire(self, keep: int) -> int:
        """Remove all but the newest ``keep`` checkpoints of a finished run, and with the last one
        everything else in the directory; return the bytes freed. ``removed.json`` then records the
        last step, so that the run never restarts silently.
        """
        committed = self._committed()
        if not committed:
            return 0
        before = _bytes_below(self.root)
        if not keep:  # first: a kill in between leaves checkpoints, and they are found
            write_json_atomic(self.root / REMOVED, {"step": step_of(committed[0])})
        for path in committed[keep:]:
            _discard(path)
        if not keep:
            for path in self.root.glob("best*"):
                path.unlink(missing_ok=True)
        self._sweep()
        return before - _bytes_below(self.root)

    def newest(self) -> Path | None:
        """Return the newest valid checkpoint, or None when none was ever committed.

        Raises ``CheckpointError`` when all are damaged, or were removed when the run had finished.
        """
        damage: list[str] = []
        for path in self._committed():
            problems = verify(path)
            if not problems:
                return path
            damage.append(f"{path}, by its {MANIFEST}: {'; '.join(problems)}")
            _log.warning("damaged checkpoint skipped: %s", damage[-1])
            event = {"kind": "checkpoint_damaged", "path": str(path), "problems": problems}
            if self._on_event:
                self._on_event(event)
        if damage:
            raise CheckpointError(
                f"{self.root}: every checkpoint is damaged, and a run never restarts silently:"
                + "".join(f"\n    {line}" for line in damage)
                + "\n    fix: restore one of them, or name another run directory to start again"
                + "\n    kept: all files, unchanged"
            )
        if (self.root / REMOVED).is_file():
            raise CheckpointError(
                f"{self.root}: the run had finished, and its checkpoints were removed "
                "(training.keep_checkpoints_at_end), so it can be neither resumed nor exported\n"
                "    fix: restore the file that is missing, such as metrics.json; or name another "
                f"run directory, or delete {self.root.parent}, to train again\n"
                "    kept: all files, unchanged"
            )
        return None

    def _committed(self) -> list[Path]:
        """Return committed directories, damaged or not, newest first."""
        if not self.root.is_dir():
            return []
        paths = [path for path in self.root.iterdir() if _COMMITTED.fullmatch(path.name)]
        return sorted(paths, key=step_of, reverse=True)

    def _sweep(self) -> None:
        """Remove staged and half-deleted directories of processes that have ended."""
        for path in self.root.glob(".step-*"):
            if is_abandoned(path):
                shutil.rmtree(path, ignore_errors=True)

    def _prune(self, saved: Path) -> None:
        """Keep ``saved``, newer ones and the next ``keep - 1`` valid ones; remove the rest."""
        good = 1
        for path in self._committed():
            if step_of(path) >= step_of(saved):
                continue
            if good < self.keep and not verify(path):
                good += 1
            else:
                _discard(path)

    def _newest_valid(self) -> str:
        """Return the newest valid checkpoint as text for a message."""
        valid = (str(path) for path in self._committed() if not verify(path))
        return next(valid, "nothing; no checkpoint had been committed")

    def _write_error(self, error: BaseException, need: int) -> ResourceError:
        number = disk_error(error)
        cause = f"{os.strerror(number)} (errno {number})" if number else str(error)
        fix = _REMEDIES[number] if number else "choose another run directory"
        return ResourceError(
            f"{self.root}: the checkpoint cannot be written: {cause}; needed about "
            f"{_mebibytes(need)}, free {_free(self.root)}"
            f"\n    fix: {fix}\n    kept: {self._newest_valid()}"
        )


def verify(directory: Path) -> list[str]:
    """Return a line for each problem of a committed directory, none when it is valid. Files that
    the manifest does not name are ignored.
    """
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        version, step, files = manifest["format"], manifest["step"], dict(manifest["files"])
        expected = {
            str(name): {key: entry[key] for key in ("bytes", "sha256")}
            for name, entry in files.items()
        }
        manifest_step = f"step-{int(step):08d}"
    except FileNotFoundError:
        return [f"{MANIFEST} is missing"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return [f"{MANIFEST} cannot be read: {error!r}"]
    if version != FORMAT:
        return [f"{MANIFEST} has format {version}; this road_ray reads {FORMAT}"]
    if manifest_step != directory.name:
        return [f"{MANIFEST} is of {manifest_step}, the directory is {directory.name}"]
    return problems_of(directory, expected)


def _seal(directory: Path, step: int) -> int:
    """Flush all files to the disk, then write the manifest; return the bytes staged."""
    paths = [path for path in directory.rglob("*") if path.is_file()]
    paths.sort(key=lambda path: (path.stat().st_mtime_ns, path))
    for path in paths:
        sync(path)
    files = hashes_of(directory, paths)
    manifest = directory / MANIFEST
    body = {"format": FORMAT, "step": step, "files": files}
    manifest.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    for path in [manifest, *(p for p in directory.rglob("*") if p.is_dir()), directory]:
        sync(path)
    return sum(path.stat().st_size for path in [*paths, manifest])


def _discard(directory: Path) -> None:
    """Rename a directory, then delete it; a kill in between leaves only a leftover."""
    aside = staged_beside(directory, "old")
    try:
        os.rename(directory, aside)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", directory, error)
        return
    shutil.rmtree(aside, ignore_errors=True)


def disk_error(error: BaseException) -> int | None:
    """Return the errno of an error of disk or permission, also if it is only in the message, as in
    errors of Rust; else None.
    """
    match = re.search(r"os error (\d+)", str(error))
    number = error.errno if isinstance(error, OSError) else int(match[1]) if match else None
    return number if number in _REMEDIES else None


def has_checkpoints(root: Path) -> bool:
    """Return True if a run has checkpoints, or had them until it finished."""
    return (root / REMOVED).is_file() or any(root.glob("step-*"))


def _bytes_below(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def step_of(path: Path) -> int:
    """Return the number of finished steps of a committed checkpoint."""
    return int(path.name.removeprefix("step-"))


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


def _free(path: Path) -> str:
    try:
        return _mebibytes(shutil.disk_usage(path).free)
    except OSError:
        return "unknown"
