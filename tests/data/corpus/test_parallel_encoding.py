"""Blocks, their rows in order, and processes that die."""

from __future__ import annotations

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
    return [(block.part, block.documents, block.tokens.tolist()) for block in encoded]


def test_rows_depend_on_the_numbers_of_block_and_part_alone(encoder):
    long = ["The cat sat. It ran!\nThe dog slept. " * 30]
    first, same, other, part = (
        encoder.encode(Block(part, number, long))
        for part, number in ((0, 0), (0, 0), (0, 1), (1, 0))
    )
    assert np.array_equal(first.first_segments, same.first_segments)
    assert not np.array_equal(first.first_segments, other.first_segments)
    assert not np.array_equal(first.first_segments, part.first_segments)
    assert first.lengths.sum() == len(first.tokens)


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
