"""Blocks encoded by an equal encoder are the same, wherever it runs."""

from __future__ import annotations

import numpy as np
import pytest

from road_ray.data.corpus.encode_documents import Encoder, encode_block
from road_ray.data.tokenizer import train_wordpiece

DOCUMENTS = ["The cat sat. It ran!\nThe dog slept.", "Ünï cödé cat.", "  "]


@pytest.fixture(scope="module")
def encoder():
    tokenizer = train_wordpiece(DOCUMENTS, vocab_size=60)
    return Encoder.of(tokenizer, max_length_tokens=12, seed=3)


def test_a_block_of_an_encoder_made_from_settings_is_the_same(encoder, monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    encoded = encode_block(encoder.settings(), 0, 7, DOCUMENTS)
    expected = encoder.encode(7, DOCUMENTS)
    assert encoded.documents == expected.documents == 3
    assert np.array_equal(encoded.tokens, expected.tokens)
    assert np.array_equal(encoded.first_segments, expected.first_segments)


def test_rows_depend_on_the_number_of_their_block_alone(encoder):
    long = [DOCUMENTS[0] * 30]
    first, same, other = (encoder.encode(n, long) for n in (0, 0, 1))
    assert np.array_equal(first.first_segments, same.first_segments)
    assert not np.array_equal(first.first_segments, other.first_segments)
    assert first.lengths.sum() == len(first.tokens)
