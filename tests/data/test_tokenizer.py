"""Tokenizers from files, directories and text, and what is wrong with those that are not."""

from __future__ import annotations

import pytest

from road_ray.data.tokenizer import SPECIAL_TOKENS, load_tokenizer, special_ids, train_wordpiece
from road_ray.errors import DataError

TEXT = ["The cat sat on the mat.", "A dog sat on the log.", "Cats and dogs sit."] * 5


@pytest.fixture(scope="module")
def learnt():
    return train_wordpiece(TEXT, vocab_size=60)


def test_a_learnt_vocabulary_begins_with_the_special_tokens_and_reads_its_text(learnt):
    assert [learnt.convert_ids_to_tokens(index) for index in range(5)] == list(SPECIAL_TOKENS)
    assert len(learnt) <= 60
    ids = learnt("The cat SAT")["input_ids"]
    assert learnt.unk_token_id not in ids
    assert learnt.decode(ids, skip_special_tokens=True) == "the cat sat"
    assert (ids[0], ids[-1]) == (learnt.cls_token_id, learnt.sep_token_id)


def test_pairs_have_the_second_segment_marked(learnt):
    encoded = learnt("cat", "dog")
    boundary = encoded["input_ids"].index(learnt.sep_token_id)
    kinds = encoded["token_type_ids"]
    assert set(kinds[: boundary + 1]) == {0}
    assert set(kinds[boundary + 1 :]) == {1}


def test_case_is_kept_when_asked():
    cased = train_wordpiece(TEXT, vocab_size=60, lowercase=False)
    assert "T" in cased.get_vocab()
    assert cased.tokenize("The") != cased.tokenize("the")


def test_learning_is_the_same_every_time(learnt):
    assert train_wordpiece(TEXT, vocab_size=60).get_vocab() == learnt.get_vocab()


def test_no_words_give_an_error_instead_of_an_empty_vocabulary():
    with pytest.raises(DataError, match="no words"):
        train_wordpiece(["  ", ""], vocab_size=50)


def test_a_saved_tokenizer_comes_back(learnt, tmp_path):
    learnt.save_pretrained(tmp_path)
    again = load_tokenizer(tmp_path)
    assert again.get_vocab() == learnt.get_vocab()
    assert again("The cat, a dog")["input_ids"] == learnt("The cat, a dog")["input_ids"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_vocabulary_file_or_its_directory_is_enough(learnt, tmp_path, line_end):
    words = sorted(learnt.get_vocab(), key=learnt.get_vocab().get)
    file = tmp_path / "vocab.txt"
    file.write_bytes(line_end.join([*words, ""]).encode())
    for place in (file, tmp_path):
        again = load_tokenizer(place)
        assert again.get_vocab() == learnt.get_vocab()
        assert again("The cat sat")["input_ids"] == learnt("The cat sat")["input_ids"]


def test_special_ids_are_padding_cls_sep_and_mask(learnt):
    assert special_ids(learnt) == (0, 2, 3, 4)


def test_a_tokenizer_without_a_mask_is_refused_by_name(learnt, tmp_path):
    learnt.save_pretrained(tmp_path)
    again = load_tokenizer(tmp_path)
    again.mask_token = None
    with pytest.raises(DataError, match="no mask_token"):
        special_ids(again)


def test_a_doubled_entry_is_told_with_both_lines(tmp_path):
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join([*SPECIAL_TOKENS, "cat", "dog", "cat"]) + "\n")
    with pytest.raises(DataError, match=r"vocab\.txt:8  'cat' stands twice, first in line 6"):
        load_tokenizer(file)


@pytest.mark.parametrize("content", [b"cat\ndog\n", b"", b"\xff\xfe\x00cat"])
def test_another_kind_of_file_is_refused(tmp_path, content):
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    with pytest.raises(DataError, match="not a WordPiece vocabulary"):
        load_tokenizer(file)


def test_a_directory_without_a_tokenizer_and_a_name_that_is_nothing_are_refused(tmp_path):
    with pytest.raises(DataError, match="holds no tokenizer"):
        load_tokenizer(tmp_path)
    with pytest.raises(DataError, match="no tokenizer"):
        load_tokenizer(tmp_path / "nowhere")
