"""Record of the files that a run reads, by content: ``inputs.json`` of its directory.

A file whose size and modification time are as recorded is taken to be the same; any other is
hashed. A file whose folder is gone, such as data that were deleted after the training, is not
compared.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict  # that of Python 3.11 is none to pydantic

from road_ray.data.config import CorpusConfig, SourceConfig
from road_ray.errors import CheckpointError, ResourceError
from road_ray.system.files import path_of, sha256_of

_log = logging.getLogger(__name__)
T = TypeVar("T")

INPUTS = "inputs.json"
_TOLD_BYTES = 2 * 10**9  # from which reading takes seconds
TEACHERS = "teachers"
_MODEL_SUFFIXES = {".json", ".safetensors", ".txt", ".model"}


class Entry(TypedDict):
    """Size, time and sha256 of a file."""

    bytes: int
    modified_ns: int
    sha256: str


_INPUTS = TypeAdapter(dict[str, dict[str, Entry]])
Inputs = Mapping[str, Iterable[Path]]
"""Files by kind: ``init``, ``data``, ``teachers``."""


def model_files(init: str) -> list[Path]:
    """Return the files that determine the output of a local run or model directory; none for a hub
    name, whose revisions do not change.
    """
    place = path_of(init, "init")
    if not init or not place.is_dir():
        return []
    place = place / "hf" if (place / "hf" / "config.json").is_file() else place
    inner = (path for pattern in ("*", "heads/*/*", "generator/*") for path in place.glob(pattern))
    return sorted(path for path in inner if path.suffix in _MODEL_SUFFIXES and path.is_file())


def split_files(source: SourceConfig, names: Iterable[str], split: str) -> list[Path]:
    """Return the local files of a split of the named data sets; of the hub none."""
    # The readers are loaded when files are listed: configuration classes import this module.
    from road_ray.data.load_split import find_dataset, root_of
    from road_ray.data.readers.layouts import found_paths
    from road_ray.data.readers.tables import table_files

    files: list[Path] = []
    for name in names:
        below = root_of(name, source)
        entry, _ = find_dataset(name, source)
        if below is None:
            continue
        for path in filter(None, found_paths(entry, below, split).values()):
            files += table_files(path) if path.is_dir() else [path]
    return files


def unlabelled_files(source: SourceConfig, names: Iterable[str]) -> list[Path]:
    """Return the files of rows without labels, and the training files of data sets among them but
    for the one that is trained on.
    """
    from road_ray.data.load_split import resolve_root
    from road_ray.data.training_rows import REST, unlabelled_file

    root = resolve_root(source.root)
    pairs = [(name, unlabelled_file(name, root)) for name in names if name != REST]
    files = [file for _, file in pairs if file is not None]
    return [*files, *split_files(source, [name for name, file in pairs if file is None], "train")]


def corpus_files(data: CorpusConfig) -> list[Path]:
    """Return the local files of a corpus, and of the tokenizer that is named for it."""
    if data.corpus.startswith("hub:") or "://" in data.corpus:
        return []
    from road_ray.data.corpus.prepare_corpus import corpus_text
    from road_ray.data.load_split import resolve_root

    place, root = Path(str(corpus_text(data))), resolve_root(data.root)
    files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
    tokenizer_path = Path(data.tokenizer or "").expanduser()
    for tokenizer in [(root or Path()) / tokenizer_path, tokenizer_path] if data.tokenizer else []:
        if tokenizer.exists():
            return [*files, *([tokenizer] if tokenizer.is_file() else model_files(str(tokenizer)))]
    return files


def current_inputs(run_dir: Path, inputs: Inputs) -> dict[str, dict[str, Entry]]:
    """Return the content of ``inputs.json`` for a run that starts or resumes. Several files are
    read at once, since hashing leaves Python's lock.

    Raises ``CheckpointError`` for a damaged record, ``ResourceError`` for an unreadable file.
    """
    known = read_own(run_dir / INPUTS, _INPUTS, "the files that the run read are not compared")
    inputs_now: dict[str, dict[str, Entry]] = {}
    for kind, paths in inputs.items():
        now, then = {str(path.resolve()): path for path in paths}, known.get(kind, {})
        new = [path for name, path in now.items() if name not in then]
        try:
            if (size := sum(path.stat().st_size for path in new)) >= _TOLD_BYTES:
                told = "reading %d files, %.1f GB, for their sha256 in %s"
                _log.info(told, len(new), size / 1e9, INPUTS)
            with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
                entries = threads.map(_entry, now.values(), map(then.get, now))
                inputs_now[kind] = dict(zip(now, entries, strict=True))
        except OSError as error:
            raise ResourceError(
                f"{error.filename}: cannot be read: {error.strerror}\n"
                "  fix: make it readable for this user; nothing was started"
            ) from error
    return inputs_now


def changed_inputs(run_dir: Path) -> list[str]:
    """Return a line for each recorded file that has changed."""
    lines = []
    known = read_own(run_dir / INPUTS, _INPUTS, "the files that the run read are not compared")
    for name, then in (pair for kind in known.values() for pair in kind.items()):
        path = Path(name)
        if not path.parent.is_dir():
            continue
        now = _entry(path, then) if path.is_file() else None
        if now is None or now["sha256"] != then["sha256"]:
            told = [f"{e['bytes']} bytes, sha256 {e['sha256'][:12]}" for e in (then, now) if e]
            lines.append(f"{path}: then {told[0]}, now {told[1] if now else 'missing'}")
    return lines


def _entry(path: Path, known: Entry | None) -> Entry:
    status = path.stat()
    size, time = status.st_size, status.st_mtime_ns
    if known is not None and (known["bytes"], known["modified_ns"]) == (size, time):
        return known
    return {"bytes": size, "modified_ns": time, "sha256": sha256_of(path)}


def read_own(path: Path, kind: TypeAdapter[T], without: str) -> T:
    """Return the record of a run in ``path``, the empty one if there is no file.

    Raises ``CheckpointError`` for one that no run wrote; it says what holds ``without`` the file.
    """
    try:
        return kind.validate_json(path.read_bytes() if path.is_file() else b"{}")
    except ValidationError as error:
        message = f"{path}: not what a run writes: {error}\n  fix: delete it, and {without}"
        raise CheckpointError(message) from error


def identity_of(**inputs: object) -> dict[str, str]:
    """Return 16 hexadecimal digits of the sha256 of each input that a resumed run must share."""
    texts = {name: json.dumps(x, sort_keys=True, default=str) for name, x in inputs.items()}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in texts.items()}
