"""Build the shards of a corpus from raw text, on all cores or machines, and resumable.

Shards are written to a hidden directory beside the corpus, which is renamed when complete; in an
object store, which knows no rename, the manifest is written last.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.data.corpus.cut_shards import PartProgress, PartWork, chained
from road_ray.data.corpus.encode_documents import Encoder
from road_ray.data.corpus.memory_mapped_corpus import (
    FORMAT,
    MANIFEST,
    Corpus,
    DamagedCorpus,
    manifest_digest,
    open_corpus,
    parse_manifest,
    tokenizer_digest,
)
from road_ray.data.corpus.parallel_encoding import Encoding, encoded_shards
from road_ray.data.corpus.shard_destination import Directory, Place, StoredPlace
from road_ray.data.tokenizer import special_ids
from road_ray.errors import DataError, ResourceError
from road_ray.system.file_lock import lock_exclusively
from road_ray.system.remote_files import Storage
from road_ray.system.staging import staged_beside

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_log = logging.getLogger(__name__)
_PROGRESS = "PROGRESS-"
_LOCK = "lock"
_LOG_EVERY_SECONDS = 30.0


def recipe_of(
    tokenizer: PreTrainedTokenizerFast, *, max_length_tokens: int, seed: int = 0, source: str = ""
) -> dict[str, Any]:
    """Return the settings that determine the rows of a corpus."""
    special_ids(tokenizer)  # raises before hours of tokenising
    return {
        "format": FORMAT,
        "tokenizer": tokenizer_digest(tokenizer),
        "max_length_tokens": max_length_tokens,
        "seed": seed,
        "source": source,
    }


def build_corpus(
    parts: Sequence[Iterable[str]],
    directory: Path,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
    seed: int = 0,
    source: str = "",
    processes: int | None = None,
    encoding: Encoding = encoded_shards,
    shuffled_shards: int | None = None,
) -> Corpus:
    """Return the opened corpus in ``directory``; tokenise and write it if needed.

    A complete directory of the same recipe is reused, a damaged one is rebuilt, an interrupted one
    continues after its last complete shards. Each of ``parts`` yields documents, which never share
    a row. ``encoding`` makes the shards in ``processes`` processes, whose number does not change
    them. Raises ``DataError`` for a text without rows.
    """
    settings = {"max_length_tokens": max_length_tokens, "seed": seed}
    recipe = recipe_of(tokenizer, source=source, **settings)
    if _built(directory, recipe) is not None:
        return open_corpus(directory, shuffled_shards)
    encoder = Encoder.of(tokenizer, **settings)
    _log_start(recipe, directory)
    try:
        with _staging(directory) as staging:
            _write_shards(parts, encoder, Directory(staging), recipe, encoding, processes)
            _put_in_place(staging, directory, recipe)
            # Not earlier: without them another process would start again and delete the shards.
            _delete_progress(Directory(directory))
            (directory / _LOCK).unlink(missing_ok=True)
    except OSError as error:
        if _built(directory, recipe) is not None:  # another process was faster
            return open_corpus(directory, shuffled_shards)
        raise ResourceError(
            f"{directory}: the corpus cannot be written: {error}\n"
            "  fix: free space there, make it writable, or name another directory\n"
            "  kept: complete shards; to resume, run the same command"
        ) from error
    return open_corpus(directory, shuffled_shards)


def build_stored_corpus(
    parts: Sequence[Iterable[str]],
    storage: Storage,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
    seed: int = 0,
    source: str = "",
    processes: int | None = None,
    encoding: Encoding = encoded_shards,
) -> None:
    """Write the corpus to an object store unless it exists there; otherwise like ``build_corpus``.

    Two builders write the same bytes to the same names, so they need no lock.
    """
    settings = {"max_length_tokens": max_length_tokens, "seed": seed}
    recipe = recipe_of(tokenizer, source=source, **settings)
    place = StoredPlace(storage)
    if (content := place.read(MANIFEST)) is not None:
        try:
            parse_manifest(content, f"{storage}/{MANIFEST}", str(storage))
            return
        except DamagedCorpus as error:
            _log.warning("%s: the corpus is built again", str(error).splitlines()[0])
            place.delete(MANIFEST)
    _log_start(recipe, place)
    _write_shards(parts, Encoder.of(tokenizer, **settings), place, recipe, encoding, processes)
    _delete_progress(place)


def _log_start(recipe: dict[str, Any], destination: Path | Place) -> None:
    _log.info(
        "%s: cutting it into rows of %d tokens, once; stored in %s",
        recipe["source"].split(", ")[0] or "the corpus", recipe["max_length_tokens"], destination,
    )  # fmt: skip


def _write_shards(
    parts: Sequence[Iterable[str]],
    encoder: Encoder,
    place: Place,
    recipe: dict[str, Any],
    encoding: Encoding,
    processes: int | None,
) -> None:
    """Write the missing shards of all parts, then the manifest."""
    earlier = _earlier(place, recipe)
    done = [earlier.get(number, PartProgress(number)) for number in range(len(parts))]
    work = [
        PartWork(documents, progress)
        for documents, progress in zip(parts, done, strict=True)
        if not progress.is_complete
    ]
    logged_at = time.monotonic()
    for shard in encoding(work, encoder, processes=processes, place=place):
        if shard.content is not None:
            place.write(shard.name, shard.content)
        content = shard.progress | {"recipe": recipe}
        content |= {"digest": manifest_digest(content)}
        number = shard.progress["part"]
        place.write(f"{_PROGRESS}{number:05d}.json", json.dumps(content).encode())
        done[number] = PartProgress(**shard.progress)
        if time.monotonic() - logged_at > _LOG_EVERY_SECONDS:
            _log.info("  %s rows so far", f"{sum(part.rows for part in done):,}")
            logged_at = time.monotonic()
    if not any(part.rows for part in done):
        _delete_progress(place)
        raise DataError(
            f"{recipe['source'] or 'the corpus'}: 0 rows of text\n"
            "  fix: name files with text (parquet column `text`, JSONL key `text`, plain text)"
        )
    place.write(MANIFEST, f"{json.dumps(_manifest(recipe, done), indent=1)}\n".encode())


def _delete_progress(place: Place) -> None:
    for name in place.names():
        if name.startswith(_PROGRESS):
            place.delete(name)


def _manifest(recipe: dict[str, Any], parts: Sequence[PartProgress]) -> dict[str, Any]:
    content = dict(recipe)
    content |= {k: sum(getattr(p, k) for p in parts) for k in ("rows", "tokens", "documents")}
    sha256 = {name: digest for part in parts for name, digest in part.sha256.items()}
    sizes = {name: size for part in parts for name, size in part.sizes.items()}
    text = ""
    for part in parts:
        text = chained(text, part.text)
    content |= {
        "shards": len(sha256),
        "mean_length": round(content["tokens"] / content["rows"], 2),
        "longest": max(part.longest for part in parts),
        "largest_id": max(part.largest_id for part in parts),
        "text": text,
        "sha256": sha256,
        "sizes": sizes,
    }
    return content | {"digest": manifest_digest(content)}


def _built(directory: Path, recipe: dict[str, Any]) -> Corpus | None:
    """Return the existing corpus of that recipe, None if there is none or it is damaged."""
    if directory.exists() and not (directory.is_dir() and _is_ours(directory)):
        raise DataError(
            f"{directory} is in the way: no built corpus, and not an empty directory\n"
            "  fix: name another directory; this one was left as it is"
        )
    if not directory.exists() or not any(directory.iterdir()):
        return None
    try:
        corpus = open_corpus(directory)
    except DamagedCorpus as error:
        _log.warning("%s: the corpus is built again", str(error).splitlines()[0])
        return None
    there = {key: corpus.manifest.get(key) for key in recipe}
    if there != recipe:
        differences = [
            f"  {k}: there {there[k]}, asked {recipe[k]}\n" for k in recipe if recipe[k] != there[k]
        ]
        raise DataError(
            f"{directory} holds a corpus of another recipe:\n{''.join(differences)}"
            "  fix: name another directory, or delete that one; it was left as it is"
        )
    return corpus


def _is_ours(directory: Path) -> bool:
    """Return True if the directory contains only files of a corpus."""
    names = {path.name for path in directory.iterdir()} - {MANIFEST, _LOCK}
    kinds = [("shard-", ".arrow"), (_PROGRESS, ".json")]
    return all(any(n.startswith(a) and n.endswith(b) for a, b in kinds) for n in names)


def _put_in_place(staging: Path, directory: Path, recipe: dict[str, Any]) -> None:
    """Rename the complete corpus to its final name, replacing a damaged one."""
    damaged = directory.is_dir() and any(directory.iterdir()) and _built(directory, recipe) is None
    aside = staged_beside(directory, "damaged")
    if damaged:
        os.rename(directory, aside)
    os.rename(staging, directory)
    if damaged:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _staging(directory: Path) -> Iterator[Path]:
    """Yield the directory to write shards to, which may hold those of an earlier attempt.

    It remains if it has a shard and no other process was faster. While another process builds the
    same corpus, it is a private directory.
    """
    place, before = directory.with_name(f".{directory.name}.partial"), _stamp(directory)
    place.mkdir(parents=True, exist_ok=True)
    with (place / _LOCK).open("a+") as lock:
        if lock_exclusively(lock):
            place = staged_beside(directory)
            place.mkdir()
        try:
            yield place
        finally:
            is_empty = not any(place.glob(f"{_PROGRESS}*"))
            if _stamp(directory) not in (None, before) or is_empty:
                shutil.rmtree(place, ignore_errors=True)


def _stamp(directory: Path) -> int | None:
    """Return a number that changes when another corpus replaces this one."""
    manifest = directory / MANIFEST
    return manifest.stat().st_ino if manifest.is_file() else None


def _earlier(place: Place, recipe: dict[str, Any]) -> dict[int, PartProgress]:
    """Return the progress of an earlier attempt by part; delete files that cannot be used."""
    progress_by_part: dict[int, PartProgress] = {}
    names = place.names()
    for name in names:
        is_progress = name.startswith(_PROGRESS) and name.endswith(".json")
        if is_progress and (progress := _part_of(place, name, recipe)) is not None:
            progress_by_part[progress.part] = progress
    known = {name for progress in progress_by_part.values() for name in progress.sha256}
    known |= {f"{_PROGRESS}{number:05d}.json" for number in progress_by_part}
    for name in names:
        if name.startswith((_PROGRESS, "shard-")) and name not in known:
            place.delete(name)
    if rows := sum(progress.rows for progress in progress_by_part.values()):
        _log.info("resuming after %s rows", f"{rows:,}")
    return progress_by_part


def _part_of(place: Place, name: str, recipe: dict[str, Any]) -> PartProgress | None:
    """Return the progress in a file if it is undamaged and of the recipe, and its shards exist."""
    try:
        content = json.loads(place.read(name) or b"")
        if content.pop("digest") != manifest_digest(content) or content.pop("recipe") != recipe:
            return None
        progress = PartProgress(**content)
        sizes = {shard: size for shard, (_, size) in progress.sizes.items()}
        has_shards = all(place.holds(n, sizes[n], sha256) for n, sha256 in progress.sha256.items())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return progress if has_shards else None
