"""Blocks, their rows in order, processes that die, and the two segments of a row."""

import multiprocessing

import numpy as np
import pytest

from road_ray.data.corpus import build_corpus
from road_ray.data.corpus.build_corpus import Block, Encoder, blocks_of, encoded_blocks
from road_ray.data.tokenizer import train_wordpiece
from road_ray.errors import ResourceError

DOCUMENTS = [f"The cat number {n} sat." for n in range(30)]


@pytest.fixture(scope="module")
def encoder():
    return Encoder.of(train_wordpiece(DOCUMENTS, vocab_size=60), 12)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(build_corpus, "_BLOCK_CHARACTERS", 100)


def rows(encoded):
    return [(block.part, block.documents, block.rows.to_pylist()) for block in encoded]


def test_rows_depend_on_the_numbers_of_block_and_part_alone(encoder):
    long = ["The cat sat. It ran!\nThe dog slept. " * 30]
    first, same, other, part = (
        encoder.encode(Block(part, number, long))
        for part, number in ((0, 0), (0, 0), (0, 1), (1, 0))
    )
    assert first.rows == same.rows
    assert first.rows != other.rows
    assert first.rows != part.rows


def test_two_processes_give_the_rows_of_one_with_few_blocks_in_flight(encoder):
    taken = []

    def documents():
        for document in DOCUMENTS * 3:
            taken.append(document)
            yield document

    encoded = encoded_blocks(blocks_of([documents()]), encoder, processes=2)
    first = next(encoded)
    assert len(taken) <= 5 * 5  # documents: 5 a block, of which 4 are ahead to judge whether enough
    together = rows([first, *encoded])
    assert together == rows(encoded_blocks(blocks_of([DOCUMENTS * 3]), encoder, processes=1))
    assert multiprocessing.active_children() == []


def test_a_killed_process_is_a_resource_error(encoder):
    def documents():
        yield from DOCUMENTS[:25]
        for process in multiprocessing.active_children():
            process.kill()
        yield from DOCUMENTS * 3

    with pytest.raises(ResourceError, match=r"(?s)ended early.*memory"):
        list(encoded_blocks(blocks_of([documents()]), encoder, processes=2))
    assert multiprocessing.active_children() == []


CLS, SEP = 2, 3


def rows_of(sentences, max_length_tokens, seed=0):
    encoder = Encoder("", CLS, SEP, max_length_tokens)
    made = encoder.two_segments(sentences, np.random.default_rng(seed))
    return [(list(row), first) for row, first in made]


def counted(num_sentences, longest, seed=0):
    """Sentences of 1 to ``longest`` tokens which count upwards, so that order can be seen."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum(rng.integers(1, longest + 1, num_sentences))
    return [list(range(1000 + a, 1000 + b)) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def test_a_tenth_of_the_rows_has_one_segment_and_a_twentieth_is_short():
    rows = rows_of(counted(60_000, 8), 64)
    single = np.mean([len(row) == first for row, first in rows])
    assert 0.08 < single < 0.14
    short = np.mean([len(row) < 52 for row, _ in rows])
    assert 0.025 < short < 0.06  # some short targets are not so short


def test_the_segments_of_a_pair_are_about_equally_long():
    pairs = [
        (first, len(row)) for row, first in rows_of(counted(30_000, 8), 64) if len(row) > first
    ]
    assert 0.4 < np.mean([first / length for first, length in pairs]) < 0.6


def test_the_tail_of_a_document_is_a_row():
    assert rows_of([[7, 8]], 64) == [([CLS, 7, 8, SEP], 4)]
    ((row, first),) = rows_of([[7] * 10, [], [8] * 30], 64, seed=1)
    assert row == [CLS, *[7] * 10, SEP, *[8] * 30, SEP]
    assert first == 12
