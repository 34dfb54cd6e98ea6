"""Rows of an output that is written whole at its end: until then they collect beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from road_ray.errors import ResourceError, counted
from road_ray.system.files import check_new, staged_beside
from road_ray.system.operating_system import sync, try_lock


class PartialOutput:
    """Rows of ``output`` as JSON lines in ``.NAME.partial`` beside it, a list of rows each.

    A process that is killed leaves them to the next one, if ``identity``, all that they depend on,
    is the same; else they are removed. One process at a time has the file: it has a lock on it
    until ``close``. ``noun`` names a row in messages; ``count`` is the number of rows.

    Raises ``ConfigError`` if ``output`` exists, ``ResourceError`` if another process writes it or
    the disk refuses it.
    """

    def __init__(self, output: Path, noun: str, identity: Mapping[str, Any]) -> None:
        self.output, self.path = output, output.with_name(f".{output.name}.partial")
        self.count, self._noun = 0, noun
        header = json.dumps(identity).encode() + b"\n"
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            self._file, end = self._locked(), 0
            with suppress(ValueError):  # a damaged line, which is written again with those behind
                for line in self._file:
                    # A line without an end was being written at a kill.
                    if not line.endswith(b"\n") or (not end and line != header):
                        break
                    self.count += len(json.loads(line)) if end else 0
                    end += len(line)
            self._file.truncate(end)
            self._file.write(b"" if end else header)
            self._file.flush()
        except OSError as error:
            raise self._failure(error) from error

    def _locked(self) -> IO[bytes]:
        """Return the file, which this process alone may write until it is closed."""
        while True:
            check_new(self.output)
            file = self.path.open("a+b")
            if not try_lock(file):
                file.close()
                raise ResourceError(
                    f"output = {self.output}: another process is writing it, in {self.path}\n"
                    "  fix: wait for it, or name another output\n  kept: all that it writes"
                )
            # The process before may have removed the file that was opened here.
            with suppress(FileNotFoundError):
                if self.path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    file.seek(0)
                    return file
            file.close()

    @property
    def kept(self) -> str:
        """Text for messages: how many rows are kept for the next process, and where."""
        return f"{counted(self.count, self._noun)} in {self.path}" if self.count else "nothing"

    def rows(self) -> Iterator[Any]:
        """Yield the rows, also those of processes before."""
        self._file.seek(0)
        next(self._file)  # the identity
        for line in self._file:
            yield from json.loads(line)

    def append(self, rows: Sequence[Any]) -> None:
        """Write rows so that they survive a kill; what JSON does not have, such as a date, becomes
        text.
        """
        try:
            self._file.write(json.dumps(rows, default=str).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise self._failure(error) from error
        self.count += len(rows)

    def finish(self, write: Callable[[Path], object]) -> None:
        """Have ``write`` write the output from the rows to the path that it is given, and give that
        file its name. Raises ``ConfigError`` if another program has made one meanwhile.
        """
        staged = staged_beside(self.output)
        try:
            write(staged)
            sync(staged)  # before the rows go
            check_new(self.output)
            staged.rename(self.output)
            self.path.unlink()
        except OSError as error:
            raise self._failure(error) from error
        finally:
            staged.unlink(missing_ok=True)

    def close(self) -> None:
        """Let the next process have the file; without a row it is removed."""
        if not self.count and not self._file.closed:
            self.path.unlink(missing_ok=True)
        with suppress(OSError):  # a full disk, which ``append`` has reported
            self._file.close()

    def _failure(self, error: OSError) -> ResourceError:
        return ResourceError(
            f"{self.output}: cannot be written: {error.strerror or error}\n"
            "  fix: free space there, or name a file that can be written; then repeat the command\n"
            f"  kept: {self.kept}"
        )
