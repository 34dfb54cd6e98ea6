"""The text of a pre-training run: where it lies, its tokenizer, and its shards, made when missing."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pydantic import Field

from road_ray.config import Config
from road_ray.data.corpus import Corpus, build_corpus, tokenizer_digest
from road_ray.data.documents import read_corpus
from road_ray.data.sources import resolve_root
from road_ray.data.tokenizer import load_tokenizer, train_wordpiece
from road_ray.errors import ConfigError


class CorpusConfig(Config):
    """The text, how it is cut into rows, and how rows make batches."""

    root: str | None = None  # as for data sets; None: $ROAD_DATA
    # file or directory below root, or a path of its own
    corpus: str = "wikipedia/train-00000-of-00001.parquet"
    tokenizer: str | None = (
        None  # vocab.txt or model directory; None: WordPiece learnt from the corpus
    )
    vocab_size: int = Field(8192, ge=8)  # of a tokenizer that is learnt
    max_length_tokens: int = Field(128, ge=8)
    batch_size: int = Field(128, ge=1)  # global, in rows
    shards: Path = Path("cache/corpus")  # built once a text, tokenizer and length


def prepare_corpus(data: CorpusConfig) -> tuple[Corpus, Any]:
    """The shards and the tokenizer of a configuration, made if they are not there yet."""
    place = corpus_path(data)
    tokenizer = corpus_tokenizer(data, place)
    source = f"{place.name}, {_total_bytes(place)} bytes"
    recipe = f"{source}|{tokenizer_digest(tokenizer)}|{data.max_length_tokens}"
    directory = data.shards / hashlib.sha256(recipe.encode()).hexdigest()[:16]
    directory.parent.mkdir(parents=True, exist_ok=True)
    documents = read_corpus(place)
    corpus = build_corpus(
        documents,
        directory,
        tokenizer,
        max_length_tokens=data.max_length_tokens,
        source=source,
    )
    return corpus, tokenizer


def corpus_path(data: CorpusConfig) -> Path:
    """Where the text lies: below the root, or a path of its own."""
    own = Path(data.corpus).expanduser()
    if own.exists():
        return own
    root = resolve_root(data.root)
    if root is None:
        raise ConfigError(
            f"data.corpus = {data.corpus}: no such file, and no data.root is given\n"
            "  fix: add data.root=... (a directory, or `miniature`), or name a file"
        )
    return root / data.corpus


def corpus_tokenizer(data: CorpusConfig, place: Path) -> Any:
    """The named tokenizer, or a WordPiece learnt from the corpus and kept beside its shards."""
    if data.tokenizer is not None:
        below = Path(data.root or "") / data.tokenizer
        return load_tokenizer(below if data.root and below.exists() else Path(data.tokenizer))
    name = hashlib.sha256(
        f"{place.name}|{_total_bytes(place)}|{data.vocab_size}".encode()
    ).hexdigest()[:16]
    directory = data.shards / f"tokenizer-{name}"
    if not (directory / "tokenizer.json").is_file():
        train_wordpiece(read_corpus(place), vocab_size=data.vocab_size).save_pretrained(directory)
    return load_tokenizer(directory)


def _total_bytes(place: Path) -> int:
    if place.is_file():
        return place.stat().st_size
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
