"""Cache of features on disk, keyed by the content of examples, tokenizer and limits, so that
further runs, seeds and workers reuse them. Files are written atomically; damaged ones are replaced.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Example, Features
from road_ray.errors import ConfigError
from road_ray.system import paths as places

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_log = logging.getLogger(__name__)

LEAST_EXAMPLES = 2000  # fewer are encoded as fast as they are read
OFF = "off"
_GOLD = "gold:"
_NOT_ENCODED = ("id", "where")
_DIGEST_BYTES = 32
_DAMAGED = (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile)

FORMAT = 4
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
        return _read(path, key)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except _DAMAGED as error:
        _log.warning("%s is damaged (%s): features are encoded again", path, error)
    features = make()
    try:
        _write(path, key, features)
    except OSError as error:
        _log.warning("features are not kept: %s\n  fix: data.cache=a directory, or off", error)
    return features


def _read(path: Path, key: str) -> Features:
    with path.open("rb") as file:
        if file.read(_DIGEST_BYTES) != _digest(file, key):
            raise ValueError("its sha256 differs, or it is the file of another key")
        file.seek(_DIGEST_BYTES)
        with np.load(file, allow_pickle=False) as archive:
            arrays: dict[str, NDArray[Any]] = {name: archive[name] for name in archive.files}
    gold = {n.removeprefix(_GOLD): arrays.pop(n) for n in list(arrays) if n.startswith(_GOLD)}
    others: dict[str, Any] = {name: str(arrays.pop(name)) for name in ("dataset", "task")}
    numbers = ("choices", "max_length_tokens", "num_truncated")
    others |= {name: int(arrays.pop(name)) for name in numbers if name in arrays} | {"gold": gold}
    return Features(**(others | arrays))


def _digest(file: BinaryIO, key: str) -> bytes:
    """Return the sha256 of the key and of the rest of ``file``."""
    return hashlib.file_digest(cast(Any, file), lambda: hashlib.sha256(key.encode())).digest()


def _write(path: Path, key: str, features: Features) -> None:
    """Write ``_digest`` and NumPy's archive to a file beside ``path``, then rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".partial", delete=False) as file:
        try:
            file.write(bytes(_DIGEST_BYTES))
            np.savez(file, **_arrays(features))
            file.seek(_DIGEST_BYTES)
            digest = _digest(cast(BinaryIO, file), key)
            file.seek(0)
            file.write(digest)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _arrays(features: Features) -> Mapping[str, Any]:
    arrays: dict[str, Any] = {f"{_GOLD}{name}": values for name, values in features.gold.items()}
    for part in fields(Features):
        value = getattr(features, part.name)
        if part.name != "gold" and value is not None:
            arrays[part.name] = value if isinstance(value, np.ndarray) else np.array(value)
    return arrays
