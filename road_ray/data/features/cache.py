"""Features kept on disk by the content of all that they follow from, so that a second run, seed or
worker reads what the first one made. A file is there whole or not at all; a damaged one is made
anew.
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

from road_ray.data.features.types import Example, Features
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

FORMAT = 3
"""Version of encoding and file layout: raise it when the same example gives another file."""


def cache_directory(named: str | None) -> Path | None:
    """Return the directory of cached features: the one named, ``ROAD_CACHE`` or
    ``~/.cache/road_ray``; None for ``off``, and with a warning where there is no home directory.
    """
    if named == OFF:
        return None
    if named is not None:
        return places.named(named, "data.cache")
    try:
        return places.cache_home() / "features"
    except ConfigError as error:
        _log.warning("features are not kept: %s", error)
        return None


def cache_key(
    examples: Sequence[Example], tokenizer: PreTrainedTokenizerFast, **limits: object
) -> str:
    """32 hexadecimal digits of the examples as they are encoded, tokenizer and limits."""
    digest = hashlib.sha256(repr((FORMAT, *sorted(limits.items()))).encode())
    backend: Any = tokenizer.backend_tokenizer
    # An earlier call of the tokenizer may have left its limits behind; encoding sets none.
    backend.no_truncation()
    backend.no_padding()
    digest.update(backend.to_str().encode())
    ids = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    digest.update(repr(ids).encode())
    kinds = {type(example) for example in examples}
    names = {kind: [f.name for f in fields(kind) if f.name not in _NOT_ENCODED] for kind in kinds}
    for example in examples:
        said = [getattr(example, name) for name in names[type(example)]]
        digest.update(repr(said).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def load_or_encode(directory: Path, key: str, make: Callable[[], Features]) -> Features:
    """The features kept under ``key``, or those of ``make``, which are then kept.

    A directory that cannot be written costs a warning and nothing else.
    """
    path = directory / f"{key}.features"
    try:
        return _read(path, key)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except _DAMAGED as error:
        _log.warning("%s is damaged (%s): features are made anew", path, error)
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
        with np.load(file, allow_pickle=False) as found:
            arrays: dict[str, NDArray[Any]] = {name: found[name] for name in found.files}
    gold = {n.removeprefix(_GOLD): arrays.pop(n) for n in list(arrays) if n.startswith(_GOLD)}
    told: dict[str, Any] = {name: str(arrays.pop(name)) for name in ("dataset", "task")}
    told |= {"gold": gold, "choices": int(arrays.pop("choices"))}
    return Features(**(told | arrays))


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
    found: dict[str, Any] = {f"{_GOLD}{name}": values for name, values in features.gold.items()}
    for part in fields(Features):
        value = getattr(features, part.name)
        if part.name != "gold" and value is not None:
            found[part.name] = value if isinstance(value, np.ndarray) else np.array(value)
    return found
