"""Checks of paths and texts of a configuration: what a file can hold, and ``~``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def texts(value: object) -> Iterator[str | Path]:
    """Yield every text and path in a value, at any depth, including the keys of mappings."""
    if isinstance(value, str | Path):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from texts(name)
            yield from texts(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from texts(item)


def refuse_unwritable(text: str | Path) -> None:
    """Raise ``ValueError`` for text that no file can hold, and for paths that Python and libraries,
    which use UTF-8, would encode differently.
    """
    try:
        written = str(text).encode()
        fits = not isinstance(text, Path) or os.fsencode(text) == written
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise ValueError(
            f"{str(text)!a} is no UTF-8 here (file names are "
            f"{sys.getfilesystemencoding()})\n    allowed: UTF-8, in a locale that has it: "
            "LC_ALL=C.UTF-8, without PYTHONUTF8=0"
        )
    if isinstance(text, Path) and b"\0" in written:
        raise ValueError("holds a zero byte\n    allowed: a path without one")
    if isinstance(text, Path) and (len(written) > 4095 or any(map(_too_long, text.parts))):
        raise ValueError(
            "is too long for a path\n    allowed: at most 255 bytes a name and 4,095 in all"
        )


def _too_long(name: str) -> bool:
    return len(name.encode()) > 255


def expand_user(value: object) -> Any:
    """Return the value with ``~`` expanded in every path of it."""
    if isinstance(value, Path):
        try:
            return value.expanduser()
        except RuntimeError:
            raise ValueError(f"no home directory for {str(value)!r}") from None
    if isinstance(value, list | tuple) and any(isinstance(item, Path) for item in value):
        return type(value)(expand_user(item) for item in value)
    if isinstance(value, dict) and any(isinstance(item, Path) for item in value.values()):
        return {name: expand_user(item) for name, item in value.items()}
    return value
