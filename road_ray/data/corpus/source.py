"""The text of a pre-training run: where it lies, its tokenizer, its shards, made when missing."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

from road_ray.data.config import CorpusConfig
from road_ray.data.corpus.build import build_corpus
from road_ray.data.corpus.dataset import FORMAT, MANIFEST, Corpus, tokenizer_digest
from road_ray.data.corpus.documents import read_corpus
from road_ray.data.corpus.parallel import Encoding, encoded_blocks
from road_ray.data.loading import resolve_root
from road_ray.data.tokenizer import load_tokenizer, train_wordpiece
from road_ray.errors import ConfigError, DataError
from road_ray.system.file_hashes import sha256_of
from road_ray.system.paths import named

_log = logging.getLogger(__name__)
_SAMPLED_BYTES = 1 << 20
_SUMS = "SHA256.json"  # of the files of a learnt tokenizer, by name


def prepare_corpus(
    data: CorpusConfig, processes: int | None = None, encoding: Encoding = encoded_blocks
) -> tuple[Corpus, Any]:
    """The shards and the tokenizer of a configuration, made if they are not there yet, by
    ``encoding`` on so many ``processes``; None: one a core.
    """
    place = corpus_path(data)
    tokenizer = corpus_tokenizer(data, place)
    source = _fingerprint(place)
    directory = _shards_at(data, source, tokenizer)
    documents = read_corpus(place)
    corpus = build_corpus(
        documents,
        directory,
        tokenizer,
        max_length_tokens=data.max_length_tokens,
        source=source,
        processes=processes,
        encoding=encoding,
    )
    if (largest := corpus.manifest["largest_id"]) >= len(tokenizer):
        raise DataError(
            f"{directory}: token id {largest}, the tokenizer has {len(tokenizer)} entries\n"
            "  fix: name a tokenizer whose ids follow each other from 0"
        )
    return corpus, tokenizer


def is_prepared(data: CorpusConfig) -> bool:
    """Return True if tokenizer and shards are there, so that ``prepare_corpus`` takes a moment."""
    place = corpus_path(data)
    if data.tokenizer is None and not _is_whole(_learnt_at(data, place)):
        return False
    return (
        _shards_at(data, _fingerprint(place), corpus_tokenizer(data, place)) / MANIFEST
    ).is_file()


def sample_of(data: CorpusConfig, directory: Path, sample_bytes: int) -> tuple[CorpusConfig, bool]:
    """Return settings for the first documents of the corpus alone, of about so many bytes, with
    text, shards and a learnt tokenizer in ``directory``; and True if these are all documents.

    A tokenizer learnt from less text has fewer words: unused entries fill it up, so that a model
    has its true size.
    """
    place, size = corpus_path(data), 0
    text, whole = directory / "sample.jsonl", True
    with text.open("w", encoding="utf-8") as file:
        for document in read_corpus(place):
            file.write(json.dumps({"text": document[:sample_bytes]}) + "\n")
            if (size := size + len(document)) >= sample_bytes:
                whole = False
                break
    changes: dict[str, Any] = {"corpus": str(text), "shards": directory / "shards"}
    if data.tokenizer is None:
        learnt = _learnt_at(data, place)
        if not _is_whole(learnt):
            learnt = directory / "tokenizer"
            tokenizer = train_wordpiece(read_corpus(text), vocab_size=data.vocab_size)
            missing = range(data.vocab_size - len(tokenizer))
            tokenizer.add_tokens([f"[unused{number}]" for number in missing])
            tokenizer.save_pretrained(learnt)
        changes["tokenizer"] = str(learnt)
    return data.model_copy(update=changes), whole


def _shards_at(data: CorpusConfig, source: str, tokenizer: Any) -> Path:
    recipe = f"{source}|{tokenizer_digest(tokenizer)}|{data.max_length_tokens}|{FORMAT}"
    return data.shards / hashlib.sha256(recipe.encode()).hexdigest()[:16]


def _learnt_at(data: CorpusConfig, place: Path) -> Path:
    recipe = f"{_fingerprint(place)}|{data.vocab_size}"
    return data.shards / f"tokenizer-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"


def corpus_path(data: CorpusConfig) -> Path:
    """Return the path of the text: below the root, or a path of its own."""
    if data.corpus.startswith("hub:"):
        return _from_hub(data.corpus.removeprefix("hub:"), data.shards)
    own = named(data.corpus, "data.corpus")
    if own.exists():
        return own
    root = resolve_root(data.root)
    if root is None:
        raise ConfigError(
            f"data.corpus = {data.corpus}: no such file, and no data.root is given\n"
            "  fix: add data.root=... (a directory, or `miniature`), or name a file"
        )
    return root / data.corpus


def _from_hub(name: str, shards: Path) -> Path:
    """The training split of a data set of the hub, saved beside the shards once."""
    directory = shards / f"hub-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    if not directory.is_dir():
        from datasets import load_dataset

        path, _, config = name.partition(":")
        shards.mkdir(parents=True, exist_ok=True)
        try:
            loaded = load_dataset(path, config or None, split="train").select_columns(["text"])
            with tempfile.TemporaryDirectory(dir=shards) as staged:
                loaded.save_to_disk(Path(staged) / "hub")
                os.replace(Path(staged) / "hub", directory)
        except (OSError, ValueError) as error:
            if directory.is_dir():  # another run was faster; it is there whole or not at all
                return directory
            raise DataError(
                f"data.corpus = hub:{name}: cannot be loaded: {error}\n"
                "  fix: check the name, that it has a split `train` with a column `text`, and the "
                "network"
            ) from error
    return directory


def corpus_tokenizer(data: CorpusConfig, place: Path) -> Any:
    """The named tokenizer, or a WordPiece learnt from the corpus and kept beside its shards."""
    if data.tokenizer is not None:
        root = resolve_root(data.root)
        below = None if root is None else root / data.tokenizer
        return load_tokenizer(below if below and below.exists() else data.tokenizer)
    directory = _learnt_at(data, place)
    if not _is_whole(directory):
        if directory.is_dir():
            _log.warning("%s: damaged, or of an older version; it is learnt again", directory)
        _log.info("%s: learning a tokenizer of %d word pieces, once", place, data.vocab_size)
        trained = train_wordpiece(read_corpus(place), vocab_size=data.vocab_size)
        data.shards.mkdir(parents=True, exist_ok=True)
        # Whole or not at all, as other runs may look for it at this moment.
        with tempfile.TemporaryDirectory(dir=data.shards) as staged:
            trained.save_pretrained(staged)
            names = sorted(os.listdir(staged))
            sums = {name: sha256_of(Path(staged) / name) for name in names}
            (Path(staged) / _SUMS).write_text(json.dumps(sums, indent=1) + "\n")
            directory.mkdir(exist_ok=True)
            for name in (*names, _SUMS):
                if (directory / name).is_dir():
                    raise DataError(f"{directory / name}: is a directory\n  fix: delete it")
                os.replace(Path(staged) / name, directory / name)
    return load_tokenizer(directory)


def _is_whole(directory: Path) -> bool:
    """Return whether all files of a learnt tokenizer are there with the bytes that they
    were written with.
    """
    try:
        sums: dict[str, str] = json.loads((directory / _SUMS).read_text(encoding="utf-8"))
        found = {p.name: sha256_of(p) for p in directory.iterdir() if p.name != _SUMS}
    except (OSError, ValueError):
        return False
    return found == sums


def _fingerprint(place: Path) -> str:
    """Name, bytes and a digest of what begins and ends each file: reading all would take long."""
    files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
    digest, total = hashlib.sha256(), 0
    for path in files:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(_SAMPLED_BYTES))
            file.seek(max(0, size - _SAMPLED_BYTES))
            digest.update(file.read())
        total += size
    return f"{place.name}, {total} bytes, {digest.hexdigest()[:16]}"
