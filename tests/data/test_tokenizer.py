"""Tokenizers from files, directories and text, and what is wrong with those that are not."""

import json

import pytest
from transformers import AutoTokenizer

from road_ray.data.tokenizer import (
    SPECIAL_TOKENS,
    check_vocabulary,
    limit_length,
    load_tokenizer,
    special_ids,
    train_wordpiece,
)
from road_ray.errors import CheckpointError, DataError

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


def test_learning_is_the_same_every_time_and_keeps_case_when_asked(learnt):
    assert train_wordpiece(TEXT, vocab_size=60).get_vocab() == learnt.get_vocab()
    cased = train_wordpiece(TEXT, vocab_size=60, lowercase=False)
    assert cased.tokenize("The") != cased.tokenize("the")


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_vocabulary_file_or_its_directory_is_enough(learnt, tmp_path, line_end):
    words = sorted(learnt.get_vocab(), key=learnt.get_vocab().get)
    file = tmp_path / "vocab.txt"
    file.write_bytes(line_end.join([*words, ""]).encode())
    for place in (file, tmp_path):
        again = load_tokenizer(place)
        assert again.get_vocab() == learnt.get_vocab()
        assert again("The cat sat")["input_ids"] == learnt("The cat sat")["input_ids"]


def test_a_tokenizer_without_a_mask_is_refused_by_name(learnt, tmp_path):
    assert special_ids(learnt) == (0, 2, 3, 4)
    learnt.save_pretrained(tmp_path)
    again = load_tokenizer(tmp_path)
    again.mask_token = None
    with pytest.raises(DataError, match="no mask_token"):
        special_ids(again)


@pytest.mark.parametrize("content", ["cat\ndog\n", ""])
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path, content):
    (tmp_path / "notes.txt").write_text(content)
    with pytest.raises(DataError, match="not a WordPiece vocabulary"):
        load_tokenizer(tmp_path / "notes.txt")


def test_a_directory_without_a_tokenizer_and_a_name_that_is_nothing_are_refused(tmp_path):
    with pytest.raises(DataError, match="holds no tokenizer"):
        load_tokenizer(tmp_path)
    with pytest.raises(CheckpointError, match=r"no model of the hub(.|\n)*no address such as f"):
        load_tokenizer(f"file://{tmp_path}")
    with pytest.raises(CheckpointError, match="no such vocabulary file"):
        load_tokenizer(tmp_path / "vocab.txt")


ACCENTS = ("schon", "schön", "中", "国", "中国")
KEPT = {"strip_accents": False, "tokenize_chinese_chars": False, "do_lower_case": True}


@pytest.mark.parametrize(
    ("words", "config", "text", "expected"),
    [
        (("the", "The"), {}, "The", ["The"]),
        (("the", "cat"), {}, "The", ["the"]),
        (("the", "The"), {"do_lower_case": False}, "The", ["The"]),
        (("the", "The"), {"do_lower_case": True}, "The", ["the"]),
        (("the", "cat"), {"do_lower_case": False}, "The", ["[UNK]"]),
        (ACCENTS, KEPT, "Schön 中国", ["schön", "中国"]),
        (ACCENTS, {"strip_accents": None}, "Schön 中国", ["schon", "中", "国"]),
    ],
)
def test_a_vocabulary_has_the_case_and_normalizer_of_its_configuration(
    tmp_path, words, config, text, expected
):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, *words]) + "\n")
    if config:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    for place in (tmp_path, tmp_path / "vocab.txt"):
        assert load_tokenizer(place).tokenize(text) == expected


def test_a_tokenizer_larger_than_the_table_is_refused():
    check_vocabulary(100, 100, "here")
    check_vocabulary(104, 100, "here")
    with pytest.raises(CheckpointError, match=r"here: .* 101 entries, the embedding table 100"):
        check_vocabulary(100, 101, "here")


@pytest.mark.parametrize(
    ("own", "trained", "expected"),
    [
        (10**30, 96, 160),  # no limit is published: the positions of the model
        (512, 96, 160),  # of another model: its positions
        (128, 96, 128),  # a lower limit is respected
        (128, 150, 150),  # but never below the rows of the training
        (128, 999, 160),
        (0, None, 160),  # means nothing
        (float("inf"), 0, 160),
    ],
)
def test_plain_transformers_truncates_at_the_longest_row_of_the_model(
    learnt, tmp_path, own, trained, expected
):
    learnt.save_pretrained(tmp_path)
    read = load_tokenizer(tmp_path)
    read.model_max_length = own
    assert limit_length(read, 160, trained) == expected
    read.save_pretrained(tmp_path)
    plain = AutoTokenizer.from_pretrained(tmp_path)
    assert len(plain("dog " * 500, truncation=True)["input_ids"]) == expected
