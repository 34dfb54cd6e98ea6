"""Text, tokenizer and shards of a pre-training run; tokenizer and shards are made if missing."""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from road_ray.data.config import CorpusConfig
from road_ray.data.corpus.build_corpus import Encoding, build_corpus, encoded_blocks, is_built
from road_ray.data.corpus.documents import (
    TEXT_SUFFIXES,
    Documents,
    TextFile,
    TextPlace,
    parts_of,
    shown,
    size_of_file,
    text_files,
)
from road_ray.data.corpus.memory_mapped_corpus import (
    FORMAT,
    Corpus,
    DamagedCorpus,
    open_corpus,
    tokenizer_digest,
)
from road_ray.data.load_split import resolve_root
from road_ray.data.readers.tables import asking_hub, load_rows
from road_ray.data.task_and_dataset import Hub
from road_ray.data.tokenizer import gives_segments, load_tokenizer, train_wordpiece
from road_ray.errors import ConfigError, DataError
from road_ray.system.files import (
    cache_home,
    hashes_of,
    path_of,
    problems_of,
    staged_directory,
    write_json_atomic,
)
from road_ray.system.remote_files import Storage, address_below, is_address

_log = logging.getLogger(__name__)
HUB = "hub:"
_SAMPLES, _SAMPLED_BYTES = 64, 1 << 15  # of a file; one of up to 2 MiB is read whole
_SAMPLED_STORED_BYTES = 1 << 16
_SUMS = "SHA256.json"  # of the files of a learnt tokenizer, by name


def prepare_corpus(
    data: CorpusConfig, processes: int | None = None, encoding: Encoding = encoded_blocks
) -> tuple[Corpus, Any]:
    """Return the corpus and the tokenizer of a configuration. If they are missing, ``encoding``
    makes them in ``processes`` processes; None: one a core.
    """
    place = corpus_text(data)
    tokenizer = corpus_tokenizer(data, place)
    files = text_files(place)
    parts, source = parts_of(files), _fingerprint(place, files)
    directory = _shards_at(data, source, tokenizer)
    try:
        corpus = open_corpus(directory, data)
    except DamagedCorpus as error:
        if is_built(directory):
            _log.warning("%s: the corpus is built again", str(error).splitlines()[0])
        length = data.max_length_tokens
        build_corpus(parts, directory, tokenizer, length, source, processes, encoding)
        corpus = open_corpus(directory, data)
    if (largest := corpus.manifest["largest_id"]) >= len(tokenizer):
        raise DataError(
            f"{directory}: token id {largest}, the tokenizer has "
            f"{len(tokenizer)} entries\n"
            "  fix: name a tokenizer whose ids follow each other from 0"
        )
    return replace(corpus, has_segments=gives_segments(tokenizer)), tokenizer


def is_prepared(data: CorpusConfig) -> bool:
    """Return True if tokenizer and shards exist, so that ``prepare_corpus`` is fast."""
    place = corpus_text(data)
    if data.tokenizer is None and not _is_whole(_learnt_at(data, place)):
        return False
    source = _fingerprint(place, text_files(place))
    return is_built(_shards_at(data, source, corpus_tokenizer(data, place)))


def sample_of(data: CorpusConfig, directory: Path, sample_bytes: int) -> tuple[CorpusConfig, bool]:
    """Return settings for the first documents of the corpus, of about ``sample_bytes`` bytes, with
    text, shards and a learnt tokenizer in ``directory``, and True if these are all documents.

    A tokenizer learnt from less text has fewer entries; unused ones are added, so that the model
    has its full size.
    """
    text, size, is_complete = directory / "sample.jsonl", 0, True
    with text.open("w", encoding="utf-8") as file:
        for document in Documents(corpus_text(data)):
            file.write(json.dumps({"text": document[:sample_bytes]}) + "\n")
            if (size := size + len(document)) >= sample_bytes:
                is_complete = False
                break
    changes: dict[str, Any] = {"corpus": str(text), "shards": str(directory / "shards")}
    if data.tokenizer is None:
        tokenizer = train_wordpiece(Documents(text), vocab_size=data.vocab_size)
        missing = range(data.vocab_size - len(tokenizer))
        tokenizer.add_tokens([f"[unused{number}]" for number in missing])
        tokenizer.save_pretrained(directory / "tokenizer")
        changes["tokenizer"] = str(directory / "tokenizer")
    return data.model_copy(update=changes), is_complete


def _shards_at(data: CorpusConfig, source: str, tokenizer: Any) -> Path | Storage:
    recipe = f"{source}|{tokenizer_digest(tokenizer)}|{data.max_length_tokens}|{FORMAT}"
    name = Path(hashlib.sha256(recipe.encode()).hexdigest()[:16])
    place = address_below(_shards_of(data), name)
    return Storage(place) if is_address(place) else Path(place)


def _shards_of(data: CorpusConfig) -> str:
    return data.shards or str(cache_home() / "corpus")


def _learnt_at(data: CorpusConfig, place: TextPlace) -> Path:
    shards = _shards_of(data)
    if is_address(shards):
        raise ConfigError(
            f"data.tokenizer is not given, and data.shards = {shown(shards)} is no directory "
            "to keep a learnt one in\n"
            "  fix: road data tokenizer TEXT DIRECTORY, then data.tokenizer=DIRECTORY"
        )
    recipe = f"{_fingerprint(place, text_files(place))}|{data.vocab_size}"
    name = f"tokenizer-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    return Path(shards) / name


def corpus_text(data: CorpusConfig) -> TextPlace:
    """Return the place of the text: an address, an existing path, or a path below the root."""
    if data.corpus.startswith(HUB):
        return _from_hub(data.corpus.removeprefix(HUB), _shards_of(data))
    if is_address(data.corpus):
        return data.corpus
    path = path_of(data.corpus, "data.corpus")
    if path.exists():
        return path
    root = resolve_root(data.root)
    if root is None:
        raise ConfigError(
            f"data.corpus = {data.corpus}: no such file, and no data.root is given\n"
            "  fix: add data.root=... (a directory, or `miniature`), or name a file"
        )
    return root / data.corpus


def _from_hub(name: str, shards: str) -> TextPlace:
    """Return the training split of a data set of the hub: the addresses of its text files, or, for
    other files, a copy beside the shards.
    """
    from datasets import load_dataset_builder

    local = cache_home() / "hub" if is_address(shards) else Path(shards)
    key = hashlib.sha256(name.encode()).hexdigest()[:16]
    copy, listed = local / f"hub-{key}", local / f"hub-{key}.json"
    if copy.is_dir():
        return copy
    if listed.is_file():
        return tuple(json.loads(listed.read_text(encoding="utf-8")))
    path, _, config = name.partition(":")
    with asking_hub(f"data.corpus = hub:{name}"):
        data_files = load_dataset_builder(path, config or None).config.data_files or {}
        files = [str(file) for file in data_files.get("train", ())]
        readable = all(file.partition("?")[0].endswith(TEXT_SUFFIXES) for file in files)
        elsewhere = any(mark in file for file in files for mark in ("::", "http://", "https://"))
        if files and readable and not elsewhere:
            write_json_atomic(listed, files)
            return tuple(files)
        copy.parent.mkdir(parents=True, exist_ok=True)
        with staged_directory(copy) as staged:
            rows = load_rows(Hub(path, config or None), "train")
            rows.select_columns(["text"]).save_to_disk(staged)
    return copy


def corpus_tokenizer(data: CorpusConfig, place: TextPlace) -> Any:
    """Return the configured tokenizer, or a WordPiece learnt from the corpus and stored beside its
    shards.
    """
    if data.tokenizer is not None:
        root = resolve_root(data.root)
        below = None if root is None else root / data.tokenizer
        return load_tokenizer(below if below and below.exists() else data.tokenizer)
    directory = _learnt_at(data, place)
    if not _is_whole(directory):
        if directory.is_dir():
            _log.warning("%s: damaged, or of an older version; it is learnt again", directory)
        _log.info("%s: learning a tokenizer of %d word pieces, once", shown(place), data.vocab_size)
        directory.parent.mkdir(parents=True, exist_ok=True)
        trained = train_wordpiece(Documents(place), vocab_size=data.vocab_size)
        # Staged, because other runs may look for it at this moment.
        with staged_directory(directory) as staged:
            trained.save_pretrained(staged)
            sums = hashes_of(staged, sorted(staged.iterdir()))
            (staged / _SUMS).write_text(json.dumps(sums, indent=1) + "\n")
    return load_tokenizer(directory)


def _is_whole(directory: Path) -> bool:
    """Return True if all files of a learnt tokenizer exist and are undamaged."""
    try:
        return not problems_of(directory, json.loads((directory / _SUMS).read_text()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return False


def _fingerprint(place: TextPlace, files: Sequence[TextFile]) -> str:
    """Return name, size and a digest of samples of the files; reading them whole takes long."""
    digest = hashlib.sha256()
    for file in files:
        size = size_of_file(file)
        digest.update(f"{file.name} {size}\n".encode())
        if isinstance(file, Path):
            room = max(0, size - _SAMPLED_BYTES)
            with file.open("rb") as opened:
                for start in sorted({room * n // (_SAMPLES - 1) for n in range(_SAMPLES)}):
                    opened.seek(start)
                    digest.update(opened.read(_SAMPLED_BYTES))
        elif file.modified_ns:
            digest.update(str(file.modified_ns).encode())
        else:
            count = min(_SAMPLED_STORED_BYTES, size)
            for start in (0, size - count):
                digest.update(file.storage.read(file.path, start, count))
    total = sum(map(size_of_file, files))
    return f"{Path(shown(place)).name}, {total} bytes, {digest.hexdigest()[:16]}"
