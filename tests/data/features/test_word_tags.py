"""Tags stand at first sub-tokens; every word is in exactly one row, however long the sentence."""

from __future__ import annotations

import numpy as np
import pytest

from road_ray.data.batching import Batching, BatchStream, WorkerShare, labels_of, pad
from road_ray.data.catalog import dataset
from road_ray.data.examples import TagExample
from road_ray.data.features.text_rows import encode_tags
from road_ray.data.task_and_dataset import Tag, Task
from road_ray.errors import DataError

NER = Task("ner", Tag(("O", "B-PER", "I-PER")))
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##b", "##c"]


@pytest.fixture(scope="module")
def letters():
    from transformers import BertTokenizer

    return BertTokenizer(vocab={w: i for i, w in enumerate(WORDS)})


def sentence(words: str, tags: str | None = None) -> TagExample:
    labels = None if tags is None else tuple(tags.split())
    return TagExample("0", tuple(words.split(" ")), labels, "eng.train:1")


def encoded(examples, tokenizer, limit=8):
    return encode_tags(examples, dataset("conll2003"), NER, tokenizer, max_length_tokens=limit)


def test_the_first_sub_token_has_the_tag_of_its_word(letters):
    rows = encoded([sentence("a abc b", "O B-PER I-PER"), sentence("c", "O")], letters)
    assert letters.convert_ids_to_tokens(rows.row(0).tolist()) == [
        "[CLS]", "a", "a", "##b", "##c", "b", "[SEP]",
    ]  # fmt: skip
    first = slice(0, 7)
    assert rows.gold["labels"][first].tolist() == [-100, 0, 1, -100, -100, 2, -100]
    assert rows.words[first].tolist() == [-1, 0, 1, -1, -1, 2, -1]
    assert rows.example.tolist() == [0, 1]


def test_long_sentences_go_on_in_further_rows_and_no_word_is_lost(letters):
    rows = encoded([sentence("a ab abc b c"), sentence("c")], letters, limit=5)
    texts = [" ".join(letters.convert_ids_to_tokens(rows.row(r).tolist())) for r in range(4)]
    assert texts == [
        "[CLS] a a ##b [SEP]",
        "[CLS] a ##b ##c [SEP]",
        "[CLS] b c [SEP]",
        "[CLS] c [SEP]",
    ]
    assert rows.example.tolist() == [0, 0, 0, 1]
    assert rows.words[rows.words >= 0].tolist() == [0, 1, 2, 3, 4, 0]


def test_words_without_tokens_and_longer_than_a_row_stay_words(letters):
    rows = encoded([sentence("\x01 abcbcbc a", "O B-PER O")], letters, limit=6)
    texts = [letters.convert_ids_to_tokens(rows.row(r).tolist())[1:-1] for r in range(2)]
    assert texts == [["a", "##b", "##c", "##b"], ["##c", "##b", "##c", "a"]]
    assert rows.words.tolist() == [-1, 1, -1, -1, -1, -1, -1, -1, -1, -1, 2, -1]
    assert rows.gold["labels"][rows.words >= 0].tolist() == [1, 0]


def test_a_sentence_without_words_is_a_row_without_labels(letters):
    rows = encoded(
        [sentence("a", "O"), TagExample("1", (), (), "f:2"), sentence("b", "O")], letters
    )
    assert rows.example.tolist() == [0, 1, 2]
    assert letters.convert_ids_to_tokens(rows.row(1).tolist()) == ["[CLS]", "[SEP]"]
    assert (rows.gold["labels"][rows.bounds[1] : rows.bounds[2]] == -100).all()
    assert len(encoded([TagExample("1", (), None, "f:2")], letters)) == 1
    assert len(encoded([sentence("a", "O"), TagExample("1", (), (), "f:2")], letters)) == 2


def test_a_tag_that_the_task_lacks_is_named(letters):
    with pytest.raises(DataError, match=r"eng.train:1: word 2 \('b'\) has the tag 'B-LOC', allo"):
        encoded([sentence("a b", "O B-LOC")], letters)


def test_labels_are_padded_beside_their_tokens(letters):
    rows = encoded([sentence("a ab", "O B-PER"), sentence("c", "O"), sentence("b")], letters)
    numbers = np.array([1, 0, 2])
    batch = pad(rows, numbers, pad_id=0)
    labels = labels_of(rows, numbers, batch["input_ids"].shape[1])["labels"]
    assert labels.shape == batch["input_ids"].shape == (3, 6)
    assert labels[0].tolist() == [-100, 0, *[-100] * 4]
    assert labels[1].tolist() == [-100, 0, 1, *[-100] * 3]
    assert (labels[2] == -100).all()
    shares = [
        BatchStream(rows, Batching(3, seed=0), WorkerShare(rank, 2), pad_id=0)[0] for rank in (0, 1)
    ]
    assert sum(len(share["labels"]) for share in shares) == 3
    assert all(share["labels"].shape == share["input_ids"].shape for share in shares)
