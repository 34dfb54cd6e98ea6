"""Ragged rows: index arithmetic by hand, tokenizer output against the plain call."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest

from road_ray.data.features import batch_tokenization
from road_ray.data.features.batch_tokenization import tokenized
from road_ray.data.features.ragged import ranges, starts_of


@pytest.fixture(scope="module")
def letters() -> Any:
    from transformers import BertTokenizer

    return BertTokenizer(
        vocab={w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"])}
    )


def test_ranges_count_up_from_each_start() -> None:
    starts, lengths = np.array([5, 9, 0]), np.array([3, 0, 2])

    assert ranges(starts, lengths).tolist() == [5, 6, 7, 0, 1]
    assert starts_of(lengths).tolist() == [0, 3, 3]


def test_ids_and_offsets_are_those_of_the_plain_call(
    letters: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_tokenization, "_TEXTS_AT_A_TIME", 2)
    texts = ["a  b", "", "é c", "b", " c\n"]
    rows = tokenized(texts, letters, offsets=True)
    plain = letters(texts, add_special_tokens=False, return_offsets_mapping=True)

    assert rows.starts.tolist() == [0, 2, 2, 4, 5]
    assert rows.lengths.tolist() == [2, 0, 2, 1, 1]
    assert rows.ids.tolist() == [*chain(*plain["input_ids"])]
    assert rows.offsets is not None
    assert [tuple(o) for o in rows.offsets.tolist()] == [*chain(*plain["offset_mapping"])]
    fast = tokenized(texts, letters)
    assert fast.offsets is None
    np.testing.assert_array_equal(fast.ids, rows.ids)


def test_spaces_are_those_of_python() -> None:
    spaces = {code for code in range(0x110000) if chr(code).isspace()}
    assert {*batch_tokenization._SPACES.tolist()} == spaces


def test_no_texts_give_no_rows(letters: Any) -> None:
    rows = tokenized([], letters, offsets=True)
    assert len(rows.starts) == len(rows.lengths) == len(rows.ids) == 0


def test_equal_texts_are_read_once_and_share_their_place(letters: Any) -> None:
    rows = tokenized(["a b", "c", "a b"], letters)

    assert rows.ids.tolist() == [5, 6, 7]
    assert rows.starts.tolist() == [0, 2, 0]
    picked = rows.rows(np.array([1, 2])).truncated(np.array([1, 1]))
    assert (picked.starts.tolist(), picked.lengths.tolist()) == ([2, 0], [1, 1])
