"""Places that shards are written to: a directory beside the final one, or an object store."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from road_ray.system.file_hashes import sha256_of
from road_ray.system.remote_files import Storage


class Place(Protocol):
    """Destination of a corpus, written file by file."""

    def write(self, name: str, content: Any) -> None:
        """Write a file atomically."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if there is none."""
        ...

    def names(self) -> list[str]:
        """Return the names of all files."""
        ...

    def holds(self, name: str, size: int, sha256: str) -> bool:
        """Return True if there is an undamaged shard of an earlier attempt."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file."""
        ...


@dataclass(frozen=True)
class Directory:
    """A directory of this machine or a shared disk."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def write(self, name: str, content: Any) -> None:
        """Write a file under another name, then rename it."""
        staged = self.path / f"{name}.new"
        staged.write_bytes(content)
        os.replace(staged, self.path / name)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if there is none."""
        path = self.path / name
        return path.read_bytes() if path.is_file() else None

    def names(self) -> list[str]:
        """Return the names of all files."""
        return [path.name for path in self.path.iterdir()]

    def holds(self, name: str, size: int, sha256: str) -> bool:
        """Return True if the shard exists with this size and sha256."""
        path = self.path / name
        return path.is_file() and path.stat().st_size == size and sha256_of(path) == sha256

    def delete(self, name: str) -> None:
        """Delete a file."""
        (self.path / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class StoredPlace:
    """A folder of an object store. A shard there is verified when a training reads it."""

    storage: Storage

    def __str__(self) -> str:
        return str(self.storage)

    def write(self, name: str, content: Any) -> None:
        """Write an object, which the store shows once it is complete."""
        self.storage.write(f"{self.storage.base}/{name}", content)

    def read(self, name: str) -> bytes | None:
        """Return the content of an object, None if there is none."""
        path = f"{self.storage.base}/{name}"
        entry = self.storage.find(path)
        return None if entry is None else self.storage.read(path, 0, entry.bytes)

    def names(self) -> list[str]:
        """Return the names of all objects."""
        return [entry.path.rpartition("/")[2] for entry in self.storage.list_files()]

    def holds(self, name: str, size: int, sha256: str) -> bool:
        """Return True if there is an object of this name and size."""
        entry = self.storage.find(f"{self.storage.base}/{name}")
        return entry is not None and entry.bytes == size

    def delete(self, name: str) -> None:
        """Delete an object."""
        self.storage.delete(f"{self.storage.base}/{name}")
