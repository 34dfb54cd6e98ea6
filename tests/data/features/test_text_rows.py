"""Rows of texts: special tokens, segments, and what is cut."""

from __future__ import annotations

import pytest

from road_ray.data.features.text_rows import bounds_of, text_rows


@pytest.fixture(scope="module")
def letters():
    from transformers import BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
    return BertTokenizer(vocab={w: i for i, w in enumerate(words)})


def test_columns_stand_beside_each_other_cut_longest_first(letters):
    columns = text_rows(
        (["a b c d", "a"], ["e", "f g"]), letters, max_length_tokens=6, name="letters"
    )
    assert columns["bounds"].tolist() == [0, 6, 12]
    rows = columns["tokens"].reshape(2, 6).tolist()
    texts = [" ".join(letters.convert_ids_to_tokens(row)) for row in rows]
    assert texts == ["[CLS] a b [SEP] e [SEP]", "[CLS] a [SEP] f g [SEP]"]
    assert columns["first_segment"].tolist() == [4, 3]
    assert columns["num_truncated"] == 1  # the second row fits


def test_bounds_begin_at_0_and_end_at_the_sum():
    import numpy as np

    assert bounds_of(np.array([3, 1, 2])).tolist() == [0, 3, 4, 6]
