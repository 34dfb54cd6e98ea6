"""Who builds a corpus of made-up text: ours, ``tokenizers`` alone, sentence by sentence in Python.

A round is the whole text, on as many cores for each.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from road_ray.data.corpus.build_corpus import build_corpus
from road_ray.data.corpus.documents import read_corpus
from road_ray.data.corpus.encode_documents import two_segments
from road_ray.data.tokenizer import train_wordpiece
from tests.benchmarks.race import gated

LENGTH = 128
_WORDS, _WORDS_A_SENTENCE, _SENTENCES_A_DOCUMENT = 50_000, 20, 60
_LEARNT_CHARACTERS = 1_000_000
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class Text:
    """How much of it, on how many cores."""

    megabytes: float = 16.0
    processes: int = 2
    vocab_size: int = 8000
    clock: str = "wall"


def documents(megabytes: float) -> Iterator[str]:
    """Sentences of words that are as frequent as Zipf says, until there is enough."""
    chance = np.random.default_rng(0)
    words = _vocabulary()
    chances = 1 / np.arange(1, len(words) + 1)
    edges = np.cumsum(chances / chances.sum())
    edges[-1] = 1.0
    left = megabytes * 1e6
    while left > 0:
        size = (_SENTENCES_A_DOCUMENT, _WORDS_A_SENTENCE)
        drawn = words[np.searchsorted(edges, chance.random(size))]
        text = " ".join(" ".join(sentence).capitalize() + "." for sentence in drawn)
        left -= len(text)
        yield text


@cache
def _vocabulary() -> Any:
    chance = np.random.default_rng(1)
    syllables = np.array([a + b for a in "bcdfghklmnprstvwz" for b in ("a", "e", "i", "o", "un")])
    counts = chance.integers(1, 5, _WORDS)
    return np.array(["".join(chance.choice(syllables, count)) for count in counts])


@contextmanager
def prepared(text: Text) -> Iterator[tuple[Path, Path, Any]]:
    """An empty directory, the text in a file beside it, and a tokenizer that knows its words."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as directory:
        file, place = Path(directory) / "text.txt", Path(directory) / "out"
        place.mkdir()
        with file.open("w", encoding="utf-8") as out:
            for document in documents(text.megabytes):
                out.write(document + "\n\n")
        some = list(documents(min(text.megabytes, _LEARNT_CHARACTERS / 1e6)))
        yield place, file, train_wordpiece(some, vocab_size=text.vocab_size)


def ours(text: Text, connection: Connection) -> None:
    """From the file to committed shards."""
    with prepared(text) as (place, file, tokenizer):
        for _ in gated(connection, [None], text.clock):
            build_corpus(
                [read_corpus(file)],
                place / "built",
                tokenizer,
                max_length_tokens=LENGTH,
                processes=text.processes,
            )
            shutil.rmtree(place / "built")


def tokenizers_alone(text: Text, connection: Connection) -> None:
    """``encode_batch_fast`` of documents that are in memory, and nothing with what it gives."""
    with prepared(text) as (_, file, tokenizer), _threads(text.processes):
        backend, given = tokenizer.backend_tokenizer, list(read_corpus(file))
        for _ in gated(connection, [None], text.clock):
            for first in range(0, len(given), 256):
                backend.encode_batch_fast(given[first : first + 256], add_special_tokens=False)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Threads of `tokenizers`; read when the first batch of a process is encoded."""
    changes = {"TOKENIZERS_PARALLELISM": "true", "RAYON_NUM_THREADS": str(count)}
    before = {name: os.environ.get(name) for name in changes}
    if count > 1:
        os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def sentence_by_sentence(text: Text, connection: Connection) -> None:
    """``tokenizer(sentence)`` in a loop, rows as ours, saved as one array a process."""
    with prepared(text) as (place, file, tokenizer):

        def build(share: int) -> None:
            chance = np.random.default_rng(share)
            rows: list[int] = []
            for number, document in enumerate(read_corpus(file)):
                if number % text.processes == share:
                    sentences = (
                        tokenizer(sentence, add_special_tokens=False)["input_ids"]
                        for sentence in _SENTENCE_END.split(document)
                    )
                    for row, _ in two_segments(
                        sentences,
                        max_length_tokens=LENGTH,
                        cls_id=int(tokenizer.cls_token_id),
                        sep_id=int(tokenizer.sep_token_id),
                        rng=chance,
                    ):
                        rows += row
            np.save(place / f"{share}.npy", np.array(rows, np.int32))

        for _ in gated(connection, [None], text.clock):
            _side_by_side(build, text.processes)


def _side_by_side(build: Callable[[int], None], count: int) -> None:
    """``build(0)``, ... in processes that know already what this one knows."""
    children = []
    for share in range(1, count):
        child = os.fork()
        if not child:
            build(share)
            os._exit(0)
        children.append(child)
    build(0)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
