"""Checkpoints that are there whole or not at all: staged, hashed, renamed; damage is seen.

What is written inside is the caller's affair (``tensors.py`` has the plain files for it). The
commit point is the rename of a directory whose ``MANIFEST.json`` names every file with its sha256.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from road_ray.errors import CheckpointError, ResourceError
from road_ray.training.checkpoint.file_hashes import hashes_of, problems_of

OnEvent = Callable[[dict[str, Any]], None]
FORMAT = 1
MANIFEST = "MANIFEST.json"
_COMMITTED = re.compile(r"step-(\d{8,})")
_STAGED = re.compile(r"\.step-\d{8,}\.(?:tmp|old)-(\d+)")
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
    """The committed checkpoints of one run, ``root/step-NNNNNNNN``; one process writes them.

    ``on_event`` receives ``{"kind": ..., ...}`` when a damaged checkpoint is passed over.
    """

    def __init__(self, root: Path, *, keep: int = 2, on_event: OnEvent | None = None) -> None:
        if keep < 1:
            raise ValueError(f"keep={keep}: at least one checkpoint must be kept")
        self.root, self.keep, self._on_event = Path(root), keep, on_event
        self._last_bytes = 0

    def prepare(self, expected_bytes: int | None = None) -> None:
        """A directory that can be written and has room; leftovers of killed processes are gone.

        Called by ``save``, and once before training so that no step is spent in vain.
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
            raise self._refused(error, need) from error

    def save(
        self, step: int, write: Callable[[Path], None], *, expected_bytes: int | None = None
    ) -> Path:
        """The committed directory of ``step``, filled by ``write(directory)``; older ones pruned.

        A step that is there and verifies is left as it is. On failure nothing of it remains.
        """
        final = self.root / f"step-{step:08d}"
        if final.exists() and not verify(final):
            self._sweep()
            self._prune(final)
            return final
        self.prepare(expected_bytes)
        staged = self.root / f".{final.name}.tmp-{os.getpid()}"
        try:
            staged.mkdir()
            write(staged)
            self._last_bytes = _seal(staged, step)
            if final.exists():  # damaged: found out above
                _discard(final)
            os.rename(staged, final)
            _sync(self.root)
        except BaseException as error:
            shutil.rmtree(staged, ignore_errors=True)
            if disk_error(error) is None:
                raise
            raise self._refused(error, expected_bytes or self._last_bytes) from error
        self._prune(final)
        return final

    def newest(self) -> Path | None:
        """The newest checkpoint that verifies; None when none was ever committed.

        Raises: CheckpointError when there are some and all are damaged.
        """
        damage: list[str] = []
        for path in self._committed():
            problems = verify(path)
            if not problems:
                return path
            damage.append(f"{path}, by its {MANIFEST}: {'; '.join(problems)}")
            _log.warning("damaged checkpoint passed over: %s", damage[-1])
            event = {"kind": "checkpoint_damaged", "path": str(path), "problems": problems}
            if self._on_event:
                self._on_event(event)
        if damage:
            raise CheckpointError(
                f"{self.root}: every checkpoint is damaged, and a run never starts afresh silently:"
                + "".join(f"\n    {line}" for line in damage)
                + "\n    fix: restore one of them, or give another run directory to start afresh"
                + "\n    kept: all files, untouched"
            )
        return None

    def _committed(self) -> list[Path]:
        """Committed directories, damaged or not, newest first."""
        if not self.root.is_dir():
            return []
        found = [path for path in self.root.iterdir() if _COMMITTED.fullmatch(path.name)]
        return sorted(found, key=step_of, reverse=True)

    def _sweep(self) -> None:
        """No staged or half-deleted directory of a process that is gone."""
        for path in self.root.iterdir():
            match = _STAGED.fullmatch(path.name)
            if match and not _belongs_to_another(int(match[1])):
                shutil.rmtree(path, ignore_errors=True)

    def _prune(self, saved: Path) -> None:
        """Only what is newer than ``saved``, it and the next ``keep - 1`` that verify are left."""
        good = 1
        for path in self._committed():
            if step_of(path) >= step_of(saved):
                continue
            if good < self.keep and not verify(path):
                good += 1
            else:
                _discard(path)

    def _kept(self) -> str:
        good = (str(path) for path in self._committed() if not verify(path))
        return next(good, "nothing; no checkpoint had been committed")

    def _refused(self, error: BaseException, need: int) -> ResourceError:
        number = disk_error(error)
        cause = f"{os.strerror(number)} (errno {number})" if number else str(error)
        fix = _REMEDIES[number] if number else "choose another run directory"
        return ResourceError(
            f"{self.root}: the checkpoint cannot be written: {cause}; needed about "
            f"{_mebibytes(need)}, free {_free(self.root)}"
            f"\n    fix: {fix}\n    kept: {self._kept()}"
        )


def verify(directory: Path) -> list[str]:
    """What is wrong with a committed directory, a line a problem; empty when it is good.

    Files that the manifest does not name are not looked at.
    """
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        version, step, files = manifest["format"], manifest["step"], dict(manifest["files"])
        expected = {
            str(name): {key: entry[key] for key in ("bytes", "sha256")}
            for name, entry in files.items()
        }
        named = f"step-{int(step):08d}"
    except FileNotFoundError:
        return [f"{MANIFEST} is missing"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return [f"{MANIFEST} cannot be read: {error!r}"]
    if version != FORMAT:
        return [f"{MANIFEST} has format {version}; this road_ray reads {FORMAT}"]
    if named != directory.name:
        return [f"{MANIFEST} is of {named}, the directory is {directory.name}"]
    return problems_of(directory, expected)


def _seal(directory: Path, step: int) -> int:
    """Bytes staged, all of them on the disk and named by a manifest that was written last."""
    paths = [path for path in directory.rglob("*") if path.is_file()]
    paths.sort(key=lambda path: (path.stat().st_mtime_ns, path))
    for path in paths:
        _sync(path)
    files = hashes_of(directory, paths)
    manifest = directory / MANIFEST
    body = {"format": FORMAT, "step": step, "files": files}
    manifest.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    for path in [manifest, *(p for p in directory.rglob("*") if p.is_dir()), directory]:
        _sync(path)
    _fault([*paths, manifest])
    return sum(path.stat().st_size for path in [*paths, manifest])


def _fault(paths: list[Path]) -> None:
    """For tests: ``RR_FAULT=checkpoint:after_bytes=N`` leaves N staged bytes and dies by SIGKILL.

    The files, in the order written and the manifest last, are cut to what such a kill leaves.
    """
    name, _, value = os.environ.get("RR_FAULT", "").partition("=")
    if name != "checkpoint:after_bytes" or int(value) > sum(p.stat().st_size for p in paths):
        return
    left = int(value)
    for path in paths:
        size = path.stat().st_size
        if left:
            os.truncate(path, min(size, left))
        else:
            path.unlink()
        left -= min(size, left)
    os.kill(os.getpid(), signal.SIGKILL)


def _discard(directory: Path) -> None:
    """Out of sight by one rename, then deleted; a kill in between leaves only a leftover."""
    aside = directory.with_name(f".{directory.name}.old-{os.getpid()}")
    try:
        os.rename(directory, aside)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", directory, error)
        return
    shutil.rmtree(aside, ignore_errors=True)


def _belongs_to_another(pid: int) -> bool:
    """True while another process of that id lives; our own id is that of an earlier life."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def disk_error(error: BaseException) -> int | None:
    """The errno when disk or permission is to blame, also when only Rust's text tells it."""
    told = re.search(r"os error (\d+)", str(error))
    number = error.errno if isinstance(error, OSError) else int(told[1]) if told else None
    return number if number in _REMEDIES else None


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def step_of(path: Path) -> int:
    """After how many steps a committed checkpoint was taken."""
    return int(path.name.removeprefix("step-"))


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


def _free(path: Path) -> str:
    try:
        return _mebibytes(shutil.disk_usage(path).free)
    except OSError:
        return "unknown"
