"""Blocks answered over pipes are those that are encoded here."""

from __future__ import annotations

import io

import numpy as np
import pytest

from road_ray.data.corpus.encode import Encoder, ask, read_frame, serve, write_frame
from road_ray.data.tokenizer import train_wordpiece

DOCUMENTS = ["The cat sat. It ran!\nThe dog slept.", "Ünï cödé cat.", "  "]


@pytest.fixture(scope="module")
def encoder():
    tokenizer = train_wordpiece(DOCUMENTS, vocab_size=60)
    return Encoder.of(tokenizer, max_length_tokens=12, seed=3)


def test_a_served_block_is_the_same(encoder):
    question, answer = io.BytesIO(), io.BytesIO()
    write_frame(question, encoder.settings())
    write_frame(question, b'[7, ["The cat sat. It ran!"]]')
    question.seek(0)
    serve(question, answer)
    answer.seek(0)
    found = ask(io.BytesIO(), answer, 7, [])
    expected = encoder.encode(7, ["The cat sat. It ran!"])
    assert found.documents == expected.documents == 1
    assert np.array_equal(found.tokens, expected.tokens)
    assert np.array_equal(found.first_segments, expected.first_segments)


def test_rows_depend_on_the_number_of_their_block_alone(encoder):
    long = [DOCUMENTS[0] * 30]
    one, same, other = (encoder.encode(n, long) for n in (0, 0, 1))
    assert np.array_equal(one.first_segments, same.first_segments)
    assert not np.array_equal(one.first_segments, other.first_segments)
    assert one.tokens.sum() == one.tokens.sum()
    assert one.lengths.sum() == len(one.tokens)


def test_a_stream_that_ends_in_a_frame_is_told():
    cut = io.BytesIO()
    write_frame(cut, b"hello")
    for size in (0, 3, 10):
        with pytest.raises(EOFError):
            read_frame(io.BytesIO(cut.getvalue()[:size]))
