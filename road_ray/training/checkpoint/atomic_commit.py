"""Atomic checkpoints: staged, hashed and renamed into place; damage is detected.

The caller writes the files. The commit point is the rename of a directory whose ``MANIFEST.json``
names every file with its sha256.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from road_ray.errors import CheckpointError, ResourceError
from road_ray.system.files import (
    discard,
    hashes_of,
    is_abandoned,
    problems_of,
    staged_directory,
    write_json_atomic,
)
from road_ray.system.operating_system import is_disk_error

OnEvent = Callable[[dict[str, Any]], None]
Write = Callable[[Path], Mapping[str, str] | None]
"""Writes the files of a checkpoint into a directory; returns the sha256 of those that it knows."""
FORMAT = 1
MANIFEST = "MANIFEST.json"
REMOVED = "removed.json"  # instead of the checkpoints of a finished run
_COMMITTED = re.compile(r"step-(\d{8,})")
_log = logging.getLogger(__name__)


class Checkpoints:
    """The committed checkpoints of one run, ``root/step-NNNNNNNN``, written by one process.

    ``on_event`` receives ``{"kind": ..., ...}`` when a damaged checkpoint is skipped.
    """

    def __init__(self, root: Path, *, keep: int = 2, on_event: OnEvent | None = None) -> None:
        if keep < 1:
            raise ValueError(f"keep={keep}: at least one checkpoint must be kept")
        self.root, self.keep, self._on_event = Path(root), keep, on_event

    def prepare(self) -> None:
        """Create the directory, remove leftovers of killed processes, and check that it is
        writable. Called by ``save``, and once before training.

        Raises ``ResourceError`` otherwise.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise self._write_error(error) from error
        for path in self.root.glob(".step-*"):
            if is_abandoned(path):
                shutil.rmtree(path, ignore_errors=True)

    def save(self, step: int, write: Write) -> Path:
        """Commit a checkpoint filled by ``write``, remove older ones, and return its directory. A
        valid checkpoint of that step is left as it is.

        Raises ``ResourceError`` for errors of the disk; a failed checkpoint is removed.
        """
        final = self.root / f"step-{step:08d}"
        self.prepare()
        if not final.exists() or verify(final):
            try:
                with staged_directory(final) as staged:
                    known = write(staged) or {}
                    paths = sorted(path for path in staged.rglob("*") if path.is_file())
                    files = hashes_of(staged, paths, known)
                    manifest = {"format": FORMAT, "step": step, "files": files}
                    (staged / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
            except Exception as error:
                if not is_disk_error(error):
                    raise
                raise self._write_error(error) from error
        for path in [path for path in self._committed() if step_of(path) < step][self.keep - 1 :]:
            discard(path)
        return final

    def retire(self, keep: int) -> int:
        """Remove all but the newest ``keep`` checkpoints of a finished run; return the bytes freed.
        Without any left, ``removed.json`` records the last step, so that the run never restarts
        silently.
        """
        committed = self._committed()
        if not committed:
            return 0
        before = _bytes_below(self.root)
        if not keep:  # first: a kill in between leaves checkpoints, and they are found
            write_json_atomic(self.root / REMOVED, {"step": step_of(committed[0])})
        for path in committed[keep:]:
            discard(path)
        self.prepare()
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

    def _write_error(self, error: Exception) -> ResourceError:
        kept = [str(path) for path in self._committed()[:1]]
        return ResourceError(
            f"{self.root}: the checkpoint cannot be written: {error}\n"
            "    fix: free space there, make it writable, or choose another run directory\n"
            f"    kept: {kept[0] if kept else 'nothing; no checkpoint had been committed'}"
        )


def verify(directory: Path) -> list[str]:
    """Return a line for each problem of a committed directory, none when it is valid. Files that
    the manifest does not name are ignored.
    """
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            return [f"{MANIFEST} has format {manifest['format']}; this road_ray reads {FORMAT}"]
        if f"step-{manifest['step']:08d}" != directory.name:
            return [f"{MANIFEST} is of step {manifest['step']}, not of {directory.name}"]
        return problems_of(directory, manifest["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return [f"{MANIFEST} cannot be read: {error!r}"]


def has_checkpoints(root: Path) -> bool:
    """Return True if a run has checkpoints, or had them until it finished."""
    return (root / REMOVED).is_file() or any(root.glob("step-*"))


def step_of(path: Path) -> int:
    """Return the number of finished steps of a committed checkpoint."""
    return int(path.name.removeprefix("step-"))


def _bytes_below(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
