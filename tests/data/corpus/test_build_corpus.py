"""Corpora on disk: whole or not at all, reused or refused."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from road_ray.data.corpus import build_corpus as module
from road_ray.data.corpus import cut_shards, parallel_encoding
from road_ray.data.corpus.build_corpus import build_corpus
from road_ray.data.corpus.memory_mapped_corpus import _read_once, open_corpus, tokenizer_digest
from road_ray.data.tokenizer import load_tokenizer, train_wordpiece
from road_ray.errors import DataError, ResourceError

DOCUMENTS = [
    "The cat sat on the mat. It was warm! Was it red?\nThe dog ran home. " * (1 + n % 5)
    for n in range(40)
]


SHARD = "shard-00000-0000"


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(DOCUMENTS, vocab_size=70)


def build(directory, tokenizer, documents=DOCUMENTS, **options):
    settings = {"max_length_tokens": 32, "seed": 1, "source": "text"} | options
    return build_corpus([documents], directory, tokenizer, **settings)


def all_rows(corpus):
    return [corpus.row(index).tolist() for index in range(len(corpus))]


def test_rows_lengths_and_first_segments_fit_together(tokenizer, tmp_path):
    corpus = build(tmp_path / "c", tokenizer)
    assert len(corpus) > 40
    rows = all_rows(corpus)
    assert corpus.lengths.tolist() == [len(row) for row in rows]
    assert max(corpus.lengths) <= 32
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    for row, first in zip(rows, corpus.first_segment, strict=True):
        assert row[0] == cls
        assert row[first - 1] == row[-1] == sep
        assert row.count(sep) == 1 + (len(row) > first)
    assert corpus.manifest["tokens"] == sum(len(row) for row in rows)
    assert corpus.manifest["documents"] == 40
    assert tokenizer.decode(rows[0], skip_special_tokens=True).startswith("the cat sat on the mat")


def test_no_row_holds_text_of_two_documents(tokenizer, tmp_path):
    corpus = build(tmp_path / "c", tokenizer, ["cat cat.", "dog dog."] * 20)
    for row in all_rows(corpus):
        text = tokenizer.decode(row)
        assert ("cat" in text) != ("dog" in text)


def test_many_shards_hold_the_rows_of_one(tokenizer, tmp_path, monkeypatch):
    first = build(tmp_path / "one", tokenizer)
    monkeypatch.setattr(cut_shards, "_ROWS_PER_SHARD", 7)
    # In this process: ``test_parallel`` has others.
    monkeypatch.setattr(parallel_encoding.os, "sched_getaffinity", lambda _: {0})
    many = build(tmp_path / "many", tokenizer)
    assert many.manifest["shards"] > 5
    assert all_rows(first) == all_rows(many)
    assert np.array_equal(first.first_segment, many.first_segment)
    assert np.array_equal(first.lengths, many.lengths)


def test_the_same_recipe_gives_the_same_bytes(tokenizer, tmp_path):
    build(tmp_path / "a", tokenizer)
    build(tmp_path / "b", tokenizer)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_the_log_names_the_directory_in_which_the_corpus_is_found(tokenizer, tmp_path, caplog):
    caplog.set_level("INFO")
    build(tmp_path / "c", tokenizer)
    assert f"once; stored in {tmp_path / 'c'}\n" in caplog.text


def test_limits_left_behind_in_the_tokenizer_do_not_cut_sentences(tokenizer, tmp_path):
    expected = all_rows(build(tmp_path / "a", tokenizer))
    tokenizer(["cat " * 9], truncation=True, max_length=4, padding="max_length")
    assert all_rows(build(tmp_path / "b", tokenizer)) == expected


def test_what_is_there_is_used_again_without_reading_text(tokenizer, tmp_path):
    first = build(tmp_path / "c", tokenizer)
    again = build(tmp_path / "c", tokenizer, documents=iter(()))
    assert all_rows(first) == all_rows(again)


@pytest.mark.parametrize("change", [{"seed": 2}, {"max_length_tokens": 16}, {"source": "other"}])
def test_another_recipe_is_refused_and_the_old_corpus_kept(tokenizer, tmp_path, change):
    build(tmp_path / "c", tokenizer)
    (key,) = change
    with pytest.raises(DataError, match=rf"(?s)another recipe:\n  {key}: there .*, asked "):
        build(tmp_path / "c", tokenizer, **change)
    assert len(open_corpus(tmp_path / "c")) > 40


def test_another_tokenizer_is_another_recipe(tokenizer, tmp_path):
    build(tmp_path / "c", tokenizer)
    cased = train_wordpiece(DOCUMENTS, vocab_size=70, lowercase=False)
    assert tokenizer_digest(cased) != tokenizer_digest(tokenizer)
    with pytest.raises(DataError, match="another recipe"):
        build(tmp_path / "c", cased)


def test_digests_tell_the_case_apart_when_the_words_are_equal(tokenizer):
    from transformers import ElectraTokenizerFast

    vocabulary = tokenizer.get_vocab()
    first, other = (ElectraTokenizerFast(vocab=vocabulary, do_lower_case=x) for x in (True, False))
    assert tokenizer_digest(first) != tokenizer_digest(other)


def bpe(**changes):
    """A tokenizer of the same vocabulary, with other parts."""
    from transformers import PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc", "ab", "bc"]
    merges = changes.get("merges", [("a", "b"), ("b", "c")])
    made = Tokenizer(models.BPE({word: n for n, word in enumerate(words)}, merges))
    made.normalizer = changes.get("normalizer", normalizers.NFC())
    made.pre_tokenizer = changes.get("pre_tokenizer", pre_tokenizers.Whitespace())
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names | changes.get("names", {}))


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": normalizers.Lowercase()},
        {"pre_tokenizer": pre_tokenizers.ByteLevel()},
        {"merges": [("b", "c"), ("a", "b")]},
        {"names": {"cls_token": "[SEP]"}},
    ],
)
def test_tokenizers_with_other_ids_for_a_text_have_other_digests(tmp_path, change):
    changed = bpe(**change)
    assert changed.get_vocab() == bpe().get_vocab()
    assert tokenizer_digest(changed) != tokenizer_digest(bpe())
    build(tmp_path / "c", bpe(), ["a b c"])
    with pytest.raises(DataError, match=r"another recipe:\n  tokenizer: there .*, asked "):
        build(tmp_path / "c", changed, ["a b c"])


def test_digests_do_not_depend_on_limits_left_behind_or_on_saving(tokenizer, tmp_path):
    expected = tokenizer_digest(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    again = load_tokenizer(tmp_path)
    again(["cat " * 9], truncation=True, max_length=4, padding="max_length")
    assert tokenizer_digest(again) == expected


@pytest.mark.parametrize("documents", [[], ["", "  \n "]])
def test_an_empty_corpus_is_an_error_and_leaves_nothing(tokenizer, tmp_path, documents):
    with pytest.raises(DataError, match="0 rows"):
        build(tmp_path / "c", tokenizer, documents)
    assert list(tmp_path.iterdir()) == []


def test_one_line_is_a_corpus_of_one_row(tokenizer, tmp_path):
    corpus = build(tmp_path / "c", tokenizer, ["cat"])
    assert len(corpus) == 1
    assert corpus.row(0).tolist() == tokenizer("cat")["input_ids"]


def test_a_break_in_the_middle_leaves_nothing(tokenizer, tmp_path):
    def breaking():
        yield from DOCUMENTS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "c", tokenizer, breaking())
    assert list(tmp_path.iterdir()) == []


def test_missing_special_tokens_are_told_before_any_text_is_read(tmp_path):
    bare = train_wordpiece(DOCUMENTS, vocab_size=70)
    bare.mask_token = None

    def unread():
        raise AssertionError("text was read")
        yield

    with pytest.raises(DataError, match="mask_token"):
        build(tmp_path / "c", bare, unread())


def test_a_directory_with_other_things_is_left_alone(tokenizer, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="in the way"):
        build(tmp_path, tokenizer)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert len(build(tmp_path / "empty", tokenizer)) > 40


def test_a_place_that_cannot_be_written_is_told(tokenizer, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match=r"(?s)cannot be written.*fix"):
        build(tmp_path / "file" / "c", tokenizer)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(cut_shards, "_BLOCK_CHARACTERS", 300)
    monkeypatch.setattr(cut_shards, "_ROWS_PER_SHARD", 7)


@pytest.fixture
def one_process(small_blocks, monkeypatch):
    """Many blocks, all encoded here; a broken build below and ``test_parallel`` have processes."""
    monkeypatch.setattr(parallel_encoding.os, "sched_getaffinity", lambda _: {0})


def test_the_faster_of_two_builders_wins(tokenizer, tmp_path, one_process):
    def overtaken():
        yield from DOCUMENTS
        build(tmp_path / "c", tokenizer)

    corpus = build(tmp_path / "c", tokenizer, overtaken(), shuffled_shards=2)
    assert len(corpus) > 40
    assert corpus.windows is not None
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def files(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_a_broken_build_goes_on_by_whole_shards_to_the_same_bytes(
    tokenizer, tmp_path, small_blocks
):
    build(tmp_path / "whole", tokenizer)

    def breaking():
        yield from DOCUMENTS[:25]
        raise DataError("text.txt:26: not UTF-8")

    with pytest.raises(DataError, match="26"):
        build(tmp_path / "c", tokenizer, breaking())
    partial = tmp_path / ".c.partial"
    before = files(partial)
    assert sum(name.startswith("shard-") for name in before) >= 2
    with pytest.raises(DataError, match="26"):
        build(tmp_path / "c", tokenizer, breaking())
    assert files(partial).keys() == before.keys()
    build(tmp_path / "c", tokenizer)
    assert files(tmp_path / "c") == files(tmp_path / "whole")
    assert not partial.exists()


def at_the_rename(monkeypatch, do):
    """``do(staging)`` when a build is whole and not yet in its place."""
    rename = os.rename

    def hooked(staging, directory):
        monkeypatch.setattr(module.os, "rename", rename)
        do(staging)
        rename(staging, directory)

    monkeypatch.setattr(module.os, "rename", hooked)


def test_a_kill_before_the_rename_costs_no_whole_shard(
    tokenizer, tmp_path, one_process, monkeypatch
):
    build(tmp_path / "whole", tokenizer)

    def killed(staging):
        raise KeyboardInterrupt

    at_the_rename(monkeypatch, killed)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "c", tokenizer)
    first = (tmp_path / ".c.partial" / "shard-00000-00000.arrow").stat()
    build(tmp_path / "c", tokenizer)
    assert (tmp_path / "c" / "shard-00000-00000.arrow").stat().st_mtime_ns == first.st_mtime_ns
    assert files(tmp_path / "c") == files(tmp_path / "whole")


def test_who_comes_before_the_rename_leaves_the_shards_alone(
    tokenizer, tmp_path, one_process, monkeypatch
):
    def second(staging):
        before = files(staging)
        with pytest.raises(ZeroDivisionError):
            build(tmp_path / "c", tokenizer, (1 / 0 for _ in "a"))
        assert files(staging) == before

    at_the_rename(monkeypatch, second)
    assert len(build(tmp_path / "c", tokenizer)) > 40
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert all(name.startswith(("MANIFEST", "shard-")) for name in files(tmp_path / "c"))


def test_a_kill_after_the_rename_leaves_a_corpus(tokenizer, tmp_path):
    build(tmp_path / "c", tokenizer)
    for name in ("PROGRESS-00000.json", "lock"):
        (tmp_path / "c" / name).write_text("")
    assert len(build(tmp_path / "c", tokenizer, iter(()))) > 40


def test_what_was_broken_off_with_another_recipe_is_not_gone_on_with(
    tokenizer, tmp_path, one_process
):
    def breaking():
        yield from DOCUMENTS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "c", tokenizer, breaking(), seed=5)
    build(tmp_path / "c", tokenizer)
    build(tmp_path / "whole", tokenizer)
    assert files(tmp_path / "c") == files(tmp_path / "whole")


def flip(path, place=0.5):
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 1
    path.write_bytes(bytes(content))
    _read_once.cache_clear()


@pytest.mark.parametrize("name", [f"{SHARD}0.arrow", f"{SHARD}2.arrow", "MANIFEST.json"])
@pytest.mark.parametrize("damage", ["flipped", "empty", "gone", "null"])
def test_a_damaged_corpus_is_built_again_to_the_same_bytes(
    tokenizer, tmp_path, one_process, caplog, name, damage
):
    build(tmp_path / "c", tokenizer)
    whole = files(tmp_path / "c")
    if damage == "flipped":
        flip(tmp_path / "c" / name)
    elif damage == "gone":
        (tmp_path / "c" / name).unlink()
    else:
        (tmp_path / "c" / name).write_text("" if damage == "empty" else "null")
    _read_once.cache_clear()
    build(tmp_path / "c", tokenizer)
    assert files(tmp_path / "c") == whole
    assert f"{name}: damaged corpus" in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_break_while_a_damaged_corpus_is_built_again_keeps_whole_shards(
    tokenizer, tmp_path, one_process
):
    build(tmp_path / "c", tokenizer)
    whole = files(tmp_path / "c")
    flip(tmp_path / "c" / "shard-00000-00001.arrow")

    def breaking():
        yield from DOCUMENTS[:25]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "c", tokenizer, breaking())
    assert (tmp_path / ".c.partial" / "shard-00000-00001.arrow").is_file()
    build(tmp_path / "c", tokenizer)
    assert files(tmp_path / "c") == whole


@pytest.mark.parametrize("name", ["shard-00000-00000.arrow", "PROGRESS-00000.json"])
def test_a_broken_build_with_a_flipped_bit_begins_anew(tokenizer, tmp_path, one_process, name):
    build(tmp_path / "whole", tokenizer)

    def breaking():
        yield from DOCUMENTS[:25]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "c", tokenizer, breaking())
    flip(tmp_path / ".c.partial" / name)
    build(tmp_path / "c", tokenizer)
    assert files(tmp_path / "c") == files(tmp_path / "whole")


def test_any_number_of_processes_gives_the_same_bytes(tokenizer, tmp_path, small_blocks):
    first = build(tmp_path / "one", tokenizer, processes=1)
    build(tmp_path / "two", tokenizer, processes=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert first.manifest["longest"] == max(first.lengths)
    assert first.manifest["mean_length"] == pytest.approx(first.lengths.mean(), abs=0.01)
