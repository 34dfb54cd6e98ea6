"""Cache of features on disk, keyed by the content of examples, tokenizer and limits, so that
further runs, seeds and workers reuse them. Files are written atomically; damaged ones are replaced.
"""

from __future__ import annotations

import hashlib
import logging
import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from road_ray.data.features.examples_and_features import Example, Features
from road_ray.errors import ConfigError
from road_ray.system import files as places
from road_ray.system.files import staged_beside
from road_ray.system.operating_system import sync

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_log = logging.getLogger(__name__)

LEAST_EXAMPLES = 2000  # fewer are encoded as fast as they are read
OFF = "off"
_GOLD = "gold:"
_NOT_ENCODED = ("id", "where")
_DAMAGED = (OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile)

FORMAT = 5
"""Version of encoding and file layout: raise it when the same example gives another file."""


def cache_directory(configured: str | None) -> Path | None:
    """Return the directory of cached features: the configured one, ``ROAD_CACHE`` or
    ``~/.cache/road_ray``; None for ``off``, and with a warning if there is no home directory.
    """
    if configured == OFF:
        return None
    if configured is not None:
        return places.path_of(configured, "data.cache")
    try:
        return places.cache_home() / "features"
    except ConfigError as error:
        _log.warning("features are not kept: %s", error)
        return None


def cache_key(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerFast, **limits: object
) -> str:
    """Return 32 hexadecimal digits of a hash of examples, tokenizer and limits."""
    digest = hashlib.sha256(repr((FORMAT, *sorted(limits.items()))).encode())
    backend: Any = tokenizer.backend_tokenizer
    # An earlier call of the tokenizer may have left its limits behind; encoding sets none.
    backend.no_truncation()
    backend.no_padding()
    digest.update(backend.to_str().encode())
    digest.update(repr((tokenizer.model_input_names, tokenizer.truncation_side)).encode())
    kinds = {type(example) for example in examples}
    names = {kind: [f.name for f in fields(kind) if f.name not in _NOT_ENCODED] for kind in kinds}
    for example in examples:
        values = [getattr(example, name) for name in names[type(example)]]
        digest.update(repr(values).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def load_or_encode(directory: Path, key: str, make: Callable[[], Features]) -> Features:
    """Return the features stored under ``key``, or those of ``make``, which are then stored.

    A directory that cannot be written causes only a warning.
    """
    path = directory / f"{key}.features"
    try:
        return _read(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except _DAMAGED as error:
        _log.warning("%s is damaged (%s): features are encoded again", path, error)
    features = make()
    try:
        _write(path, features)
    except OSError as error:
        _log.warning("features are not kept: %s\n  fix: data.cache=a directory, or off", error)
    return features


def _read(path: Path) -> Features:
    with np.load(path, allow_pickle=False) as archive:  # the zip format has checksums
        stored: dict[str, Any] = {name: archive[name] for name in archive.files}
    gold = {n.removeprefix(_GOLD): stored.pop(n) for n in list(stored) if n.startswith(_GOLD)}
    parts = {name: value if value.ndim else value.item() for name, value in stored.items()}
    return Features(gold=gold, **parts)


def _write(path: Path, features: Features) -> None:
    """Write NumPy's archive to a file beside ``path``, then rename it."""
    arrays: dict[str, Any] = {f"{_GOLD}{name}": values for name, values in features.gold.items()}
    for part in fields(Features):
        value = getattr(features, part.name)
        if part.name != "gold" and value is not None:
            arrays[part.name] = np.asarray(value)
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = staged_beside(path)
    try:
        with staged.open("wb") as file:
            np.savez(file, **arrays)
        sync(staged)
        os.replace(staged, path)
    finally:
        staged.unlink(missing_ok=True)
