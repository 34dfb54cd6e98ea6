"""Committed checkpoints of a run: staged, hashed, renamed into place and verified; and their second
copy on other storage (S3, Google Cloud, a path), from which a run is restored if its machine and
disk are lost.

The caller writes the files. The commit point is the rename of a directory whose ``MANIFEST.json``
names every file with its sha256. Fetched files are verified by it like any other checkpoint, so a
copy that was cut short is passed over.
"""

import errno
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyarrow import fs as arrow

from road_ray.errors import CheckpointError, ResourceError
from road_ray.system.files import (
    discard,
    hashes_of,
    is_abandoned,
    problems_of,
    staged_beside,
    staged_directory,
    unwritable,
    write_json_atomic,
)
from road_ray.system.operating_system import is_disk_error
from road_ray.system.remote_files import open_address, retried

Write = Callable[[Path], Mapping[str, str] | None]
"""Writes the files of a checkpoint into a directory; returns the sha256 of those that it knows."""
FORMAT = 1
MANIFEST = "MANIFEST.json"
REMOVED = "removed.json"  # instead of the checkpoints of a finished run
_COMMITTED = re.compile(r"step-(\d{8,})")
_LOCAL = arrow.LocalFileSystem()
_log = logging.getLogger(__name__)


@dataclass
class Checkpoints:
    """The committed checkpoints of one run, ``root/step-NNNNNNNN``, written by one process.

    ``on_event(kind, **fields)``, such as a journal's, is told a damaged checkpoint that is skipped.
    """

    root: Path
    keep: int = 2
    on_event: Callable[..., object] = lambda *_, **__: None

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
        for path in [p for p, of in self._committed().items() if of < step][self.keep - 1 :]:
            discard(path)
        return final

    def retire(self, keep: int) -> int:
        """Remove all but the newest ``keep`` checkpoints of a finished run; return the bytes freed.
        Without any left, ``removed.json`` records the last step, so that the run never restarts
        silently.
        """
        freed, committed = 0, self._committed()
        if committed and not keep:  # first: checkpoints that a kill in between leaves are found
            write_json_atomic(self.root / REMOVED, {"step": max(committed.values())})
        for path in [*committed][keep:]:
            freed += sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            discard(path)
        return freed

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
            self.on_event("checkpoint_damaged", path=str(path), problems=problems)
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

    def _committed(self) -> dict[Path, int]:
        """Return committed directories, damaged or not, with their finished steps, newest first."""
        found = [(_COMMITTED.fullmatch(path.name), path) for path in self.root.glob("step-*")]
        return {path: step for step, path in sorted((int(m[1]), p) for m, p in found if m)[::-1]}

    def _write_error(self, error: Exception) -> ResourceError:
        kept = next(iter(self._committed()), "nothing; no checkpoint had been committed")
        return unwritable(self.root, error, kept)


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


def changed_inputs(
    state: Mapping[str, Mapping[str, object]], run: Mapping[str, Mapping[str, object]]
) -> str:
    """Return a line for each value of ``run``, its entries ``configuration`` and ``identity``, that
    is another one in the ``state.json`` of a checkpoint.
    """
    changed = ""
    for part, values in run.items():
        then, now = state.get(part, {}), json.loads(json.dumps(dict(values)))
        # A configuration key that only one of them knows is another version's.
        keys = then.keys() & now.keys() if part == "configuration" else then.keys() | now.keys()
        for key in sorted(key for key in keys if then.get(key) != now.get(key)):
            changed += f"\n    {key}: then {then.get(key)!r}, now {now.get(key)!r}"
    return changed


class RemoteCopy:
    """The copies of one run's checkpoints below ``url``; the newest ``keep`` are kept."""

    def __init__(self, url: str, *, keep: int = 2) -> None:
        self.url, self.keep = url.partition("?")[0], keep
        self._files, self._base = open_address(url, "training.mirror")

    def push(self, directory: Path) -> None:
        """Copy a committed checkpoint and remove older copies beyond ``keep``.

        Raises ``ResourceError`` if the storage fails; earlier copies stay.
        """

        def copy() -> None:
            target = f"{self._base}/{directory.name}"
            self._files.create_dir(target, recursive=True)
            arrow.copy_files(str(directory), target, _LOCAL, self._files)
            for name in self._names()[self.keep :]:
                self._files.delete_dir(f"{self._base}/{name}")

        retried(copy, f"{self.url}/{directory.name}: cannot be written")

    def pull(self, root: Path, run: Mapping[str, Mapping[str, object]]) -> Path | None:
        """Fetch the newest valid copy to ``root/step-NNNNNNNN`` and return its path; None if there
        are no copies. ``run`` is that of ``changed_inputs``.

        Raises ``ResourceError`` if all copies are damaged or the storage fails, and
        ``CheckpointError`` for a copy of another run.
        """
        damage = []
        for name in retried(self._names, f"{self.url}: cannot be listed"):
            staged = staged_beside(root / name)
            try:
                fetch = partial(self._fetch, name, staged / name)
                problems = retried(fetch, f"{self.url}/{name}: cannot be fetched")
                if not problems:
                    self._check_run(staged / name, run)
                    os.replace(staged / name, root / name)
                    return root / name
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

    def _fetch(self, name: str, target: Path) -> list[str]:
        """Fetch a copy into a directory; return its problems."""
        source = f"{self._base}/{name}"
        found = self._files.get_file_info(arrow.FileSelector(source, recursive=True))
        if any(".." in entry.path.split("/") for entry in found):
            raise PermissionError(errno.EACCES, f"a file of {source} leads out of it")
        target.mkdir(parents=True, exist_ok=True)
        arrow.copy_files(source, str(target), self._files, _LOCAL)
        return verify(target)

    def _check_run(self, copy: Path, run: Mapping[str, Mapping[str, object]]) -> None:
        state = json.loads((copy / "state.json").read_text(encoding="utf-8"))
        if changed := changed_inputs(state, run):
            raise CheckpointError(
                f"{self.url}/{copy.name}: is of another run:{changed}\n"
                "  fix: name another training.mirror, repeat the command that began that run, or "
                "delete its copies to start afresh\n  kept: all copies; nothing was fetched"
            )

    def _names(self) -> list[str]:
        """Return the names of the copies, the newest first."""
        entries = self._files.get_file_info(arrow.FileSelector(self._base, allow_not_found=True))
        names = [entry.base_name for entry in entries if _COMMITTED.fullmatch(entry.base_name)]
        return sorted(names, key=lambda name: int(name.removeprefix("step-")), reverse=True)
