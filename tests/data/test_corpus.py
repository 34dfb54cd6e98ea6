"""Corpora on disk: whole or not at all, reused or refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from road_ray.data import corpus as module
from road_ray.data.corpus import build_corpus, open_corpus, tokenizer_digest
from road_ray.data.tokenizer import train_wordpiece
from road_ray.errors import DataError, ResourceError

DOCUMENTS = [
    "The cat sat on the mat. It was warm! Was it red?\nThe dog ran home. " * (1 + n % 5)
    for n in range(40)
]


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(DOCUMENTS, vocab_size=70)


def build(directory, tokenizer, documents=DOCUMENTS, **options):
    settings = {"max_length_tokens": 32, "seed": 1, "source": "text"} | options
    return build_corpus(documents, directory, tokenizer, **settings)


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
    one = build(tmp_path / "one", tokenizer)
    monkeypatch.setattr(module, "_ROWS_PER_SHARD", 7)
    many = build(tmp_path / "many", tokenizer)
    assert many.manifest["shards"] > 5
    assert all_rows(one) == all_rows(many)
    assert np.array_equal(one.first_segment, many.first_segment)
    assert np.array_equal(one.lengths, many.lengths)


def test_the_same_recipe_gives_the_same_bytes(tokenizer, tmp_path):
    build(tmp_path / "a", tokenizer)
    build(tmp_path / "b", tokenizer)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


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
    with pytest.raises(DataError, match=rf"(?s)another recipe.*there: .*{key}.*asked: .*{key}"):
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
    one, other = (ElectraTokenizerFast(vocab=vocabulary, do_lower_case=x) for x in (True, False))
    assert tokenizer_digest(one) != tokenizer_digest(other)


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


def test_the_faster_of_two_builders_wins(tokenizer, tmp_path):
    def overtaken():
        yield from DOCUMENTS
        build(tmp_path / "c", tokenizer)

    assert len(build(tmp_path / "c", tokenizer, overtaken())) > 40
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "text"])
def test_a_damaged_shard_is_named(tokenizer, tmp_path, damage):
    build(tmp_path / "c", tokenizer)
    shard = tmp_path / "c" / "shard-00000.arrow"
    content = shard.read_bytes()
    shard.unlink()
    if damage != "gone":
        kept = {"cut": content[: len(content) // 2], "empty": b"", "text": b"x" * 999}
        shard.write_bytes(kept[damage])
    with pytest.raises(DataError, match=r"(?s)shard-00000\.arrow: damaged or missing.*delete"):
        open_corpus(tmp_path / "c")


def test_missing_rows_and_a_damaged_manifest_are_told(tokenizer, tmp_path):
    build(tmp_path / "c", tokenizer)
    file = tmp_path / "c" / "MANIFEST.json"
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps(manifest | {"rows": manifest["rows"] + 1}))
    with pytest.raises(DataError, match="the manifest says"):
        open_corpus(tmp_path / "c")
    for text in ("{", "[]", "{}"):
        file.write_text(text)
        with pytest.raises(DataError, match=r"MANIFEST\.json: damaged"):
            open_corpus(tmp_path / "c")
    file.unlink()
    with pytest.raises(DataError, match="not a built corpus"):
        open_corpus(tmp_path / "c")
