"""Corpora on disk: whole or not at all, reused or refused; damage is named and built again. Blocks,
their rows in order, processes that die, and the two segments of a row.
"""

# ruff: noqa: RUF001

import multiprocessing

import numpy as np
import pytest
from tokenizers import (
    ByteLevelBPETokenizer,
    SentencePieceUnigramTokenizer,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
)
from transformers import PreTrainedTokenizerFast

from road_ray.data.config import CorpusConfig
from road_ray.data.corpus import build_corpus as module
from road_ray.data.corpus.build_corpus import (
    Block,
    Encoder,
    Words,
    blocks_of,
    build_corpus,
    encoded_blocks,
)
from road_ray.data.corpus.memory_mapped_corpus import (
    DamagedCorpus,
    _read_once,
    open_corpus,
    tokenizer_digest,
)
from road_ray.data.corpus.prepare_corpus import prepare_corpus
from road_ray.data.tokenizer import load_tokenizer, train_wordpiece
from road_ray.errors import DataError, ResourceError
from road_ray.system.files import staged_beside
from tests.runs import edit

DOCUMENTS = [
    "The cat sat on the mat. It was warm! Was it red?\nThe dog ran home. " * (1 + n % 5)
    for n in range(40)
]


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(DOCUMENTS, vocab_size=70)


@pytest.fixture(autouse=True)
def nothing_read_yet():
    """Files change here faster than their time stamps."""
    _read_once.cache_clear()


def build(directory, tokenizer, documents=DOCUMENTS, **options):
    settings = {"max_length_tokens": 32, "source": "text", "processes": 1} | options
    build_corpus([documents], directory, tokenizer, **settings)
    return open_corpus(directory, CorpusConfig())


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
    assert corpus.manifest["longest"] == max(corpus.lengths)
    assert corpus.manifest["largest_id"] == max(map(max, rows))
    assert corpus.manifest["mean_length"] == pytest.approx(corpus.lengths.mean(), abs=0.01)
    assert tokenizer.decode(rows[0], skip_special_tokens=True).startswith("the cat sat on the mat")


TEXTS = {
    "one sentence": "cat sat mat " * 90,
    "sentences": "The cat sat on the mat. It was warm! Was it red? " * 9,
    "without spaces": "猫坐在垫子上。它很暖和！它是红色的吗？" * 9,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_token_is_in_a_row_in_its_place(tokenizer, tmp_path, text):
    corpus = build(tmp_path / "c", tokenizer, [text])
    special = {tokenizer.cls_token_id, tokenizer.sep_token_id}
    kept = [token for row in all_rows(corpus) for token in row if token not in special]
    assert kept == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert max(corpus.lengths) == 32
    assert min(corpus.lengths[:-1]) > 5
    assert len(module._SENTENCE_END.split(TEXTS["without spaces"])) == 3 * 9 + 1


@pytest.mark.parametrize("kind", [ByteLevelBPETokenizer, SentencePieceUnigramTokenizer])
def test_a_sentence_keeps_the_space_before_it(kind, tmp_path):
    text = "The cat sat. The cat sat on the mat!\nWas it warm? It was.\n\n  The dog was red. " * 9
    learnt = kind()
    special = ["<s>", "</s>", "<pad>", "<mask>"]
    learnt.train_from_iterator([text], 300, special_tokens=special, show_progress=False)
    names = dict(zip(("cls_token", "sep_token", "pad_token", "mask_token"), special, strict=True))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=learnt._tokenizer, **names)
    corpus = build(tmp_path / "c", tokenizer, [text])
    kept = [token for row in all_rows(corpus) for token in row if token > 3]
    assert kept == tokenizer(text.rstrip(), add_special_tokens=False)["input_ids"]


def test_no_row_holds_text_of_two_documents(tokenizer, tmp_path):
    corpus = build(tmp_path / "c", tokenizer, ["cat cat.", "dog dog."] * 20)
    for row in all_rows(corpus):
        text = tokenizer.decode(row)
        assert ("cat" in text) != ("dog" in text)


def test_many_shards_hold_the_rows_of_one(tokenizer, tmp_path, monkeypatch):
    first = build(tmp_path / "one", tokenizer)
    monkeypatch.setattr(module, "_ROWS_PER_SHARD", 7)
    many = build(tmp_path / "many", tokenizer)
    assert many.manifest["shards"] > 5
    assert all_rows(first) == all_rows(many)
    assert np.array_equal(first.first_segment, many.first_segment)
    assert np.array_equal(first.lengths, many.lengths)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_CHARACTERS", 300)
    monkeypatch.setattr(module, "_ROWS_PER_SHARD", 7)


def files(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def bpe(**changes):
    """A tokenizer of the same vocabulary, with other parts."""
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
def test_tokenizers_with_other_ids_for_a_text_have_another_digest(change):
    changed = bpe(**change)
    assert changed.get_vocab() == bpe().get_vocab()
    assert tokenizer_digest(changed) != tokenizer_digest(bpe())


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


def test_a_build_that_breaks_is_no_corpus_and_the_next_one_is_whole(
    tokenizer, tmp_path, small_blocks
):
    def breaking():
        yield from DOCUMENTS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "c", tokenizer, breaking())
    assert "MANIFEST.json" not in files(tmp_path / "c")
    own = staged_beside(tmp_path / "c" / "shard-00000-00000.arrow")
    own.with_name(f"{own.name.rpartition('-')[0]}-{2**22 + 1}").write_bytes(b"half")
    build(tmp_path / "c", tokenizer)
    build(tmp_path / "whole", tokenizer)
    assert files(tmp_path / "c") == files(tmp_path / "whole")


def test_missing_special_tokens_are_told_before_any_text_is_read(tmp_path):
    bare = train_wordpiece(DOCUMENTS, vocab_size=70)
    bare.mask_token = None

    def unread():
        raise AssertionError("text was read")
        yield

    with pytest.raises(DataError, match="mask_token"):
        build(tmp_path / "c", bare, unread())


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(("shard-00000-00000.arrow", damage) for damage in ("flipped", "empty", "gone")),
        *(("MANIFEST.json", damage) for damage in ("flipped", "cut", "null")),
    ],
)
def test_a_damaged_corpus_is_built_again_to_the_same_bytes(tmp_path, caplog, name, damage):
    (tmp_path / "text.txt").write_text("\n\n".join(DOCUMENTS))
    data = CorpusConfig(
        corpus=str(tmp_path / "text.txt"), vocab_size=70, shards=str(tmp_path / "s")
    )
    directory = prepare_corpus(data, 1)[0].directory
    whole, path = files(directory), directory / name
    half = len(whole[name]) // 2
    contents = {
        "flipped": whole[name][:half] + bytes([whole[name][half] ^ 1]) + whole[name][half + 1 :],
        "cut": whole[name][:half],
        "empty": b"",
        "null": b"null",
    }
    path.unlink()
    if damage != "gone":
        path.write_bytes(contents[damage])
    _read_once.cache_clear()
    with pytest.raises(DamagedCorpus, match=rf"(?s){name}: damaged corpus: .*delete"):
        open_corpus(directory, CorpusConfig())
    prepare_corpus(data, 1)
    assert files(directory) == whole
    assert f"{name}: damaged corpus" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [({"rows": 41}, "its own sha256 is another"), ({"format": 3}, "format 3, this one is 6")],
)
def test_a_manifest_of_another_content_or_format_is_refused(tokenizer, tmp_path, change, message):
    build(tmp_path / "c", tokenizer)
    edit(tmp_path / "c" / "MANIFEST.json", **change)
    with pytest.raises(DamagedCorpus, match=rf"MANIFEST\.json: .* {message}"):
        open_corpus(tmp_path / "c", CorpusConfig())


NUMBERED = [f"The cat number {n} sat." for n in range(30)]


@pytest.fixture
def encoder(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_CHARACTERS", 100)
    return Encoder.of(train_wordpiece(NUMBERED, vocab_size=60), 12)


def rows(encoded):
    return [(block.part, block.documents, block.rows.to_pylist()) for block in encoded]


def test_rows_depend_on_the_numbers_of_block_and_part_alone(encoder):
    long = ["The cat sat. It ran!\nThe dog slept. " * 30]
    first, same, other, part = (
        encoder.encode(Block(part, number, long))
        for part, number in ((0, 0), (0, 0), (0, 1), (1, 0))
    )
    assert first.rows == same.rows
    assert first.rows != other.rows
    assert first.rows != part.rows


def test_two_processes_give_the_rows_of_one_with_few_blocks_in_flight(encoder):
    taken = []

    def documents():
        for document in NUMBERED * 3:
            taken.append(document)
            yield document

    encoded = encoded_blocks(blocks_of([documents()]), encoder, processes=2)
    first = next(encoded)
    assert len(taken) <= 5 * 5  # documents: 5 a block, of which 4 are ahead to judge whether enough
    together = rows([first, *encoded])
    assert together == rows(encoded_blocks(blocks_of([NUMBERED * 3]), encoder, processes=1))
    assert multiprocessing.active_children() == []


def test_a_killed_process_is_a_resource_error(encoder):
    def documents():
        yield from NUMBERED[:25]
        for process in multiprocessing.active_children():
            process.kill()
        yield from NUMBERED * 3

    with pytest.raises(ResourceError, match=r"(?s)ended early.*memory"):
        list(encoded_blocks(blocks_of([documents()]), encoder, processes=2))
    assert multiprocessing.active_children() == []


CLS, SEP = 2, 3


def rows_of(sentences, max_length_tokens, seed=0):
    encoder = Encoder(None, None, CLS, SEP, max_length_tokens)
    made = encoder.two_segments(sentences, np.random.default_rng(seed))
    return [(list(row), first) for row, first in made]


def counted(num_sentences, longest, seed=0):
    """Sentences of 1 to ``longest`` tokens which count upwards, so that order can be seen."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum(rng.integers(1, longest + 1, num_sentences))
    return [list(range(1000 + a, 1000 + b)) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def test_a_tenth_of_the_rows_has_one_segment_and_a_twentieth_is_short():
    rows = rows_of(counted(60_000, 8), 64)
    single = np.mean([len(row) == first for row, first in rows])
    assert 0.08 < single < 0.14
    short = np.mean([len(row) < 52 for row, _ in rows])
    assert 0.025 < short < 0.06  # some short targets are not so short
    pairs = [(first, len(row)) for row, first in rows if len(row) > first]
    assert 0.4 < np.mean([first / length for first, length in pairs]) < 0.6  # about equally long


def test_the_tail_of_a_document_is_a_row():
    assert rows_of([[7, 8]], 64) == [([CLS, 7, 8, SEP], 4)]
    ((row, first),) = rows_of([[7] * 10, [], [8] * 30], 64, seed=1)
    assert row == [CLS, *[7] * 10, SEP, *[8] * 30, SEP]
    assert first == 12


@pytest.mark.parametrize(
    ("text", "is_served"),
    [
        ("The CAT, sat-on_the m4t... (http://a.b/c?d=e#f) ~`^|\\ $3.14e-5", True),
        ("  two  spaces\tand\r\n\nlines ", True),
        ("x" * 101, True),  # longer than the words of the model
        ("", True),
        ("a [MASK] b", False),  # a special token
        ("the café", False),
        ("the\x00cat\x7f", False),  # are removed
    ],
)
def test_words_have_the_ids_of_the_tokenizer(tokenizer, monkeypatch, text, is_served):
    monkeypatch.setattr(module, "_MOST_WORDS", 3)
    backend = tokenizer.backend_tokenizer
    ids, expected = Words(backend).ids_of(text), backend.encode(text, add_special_tokens=False).ids
    assert (ids is not None) == is_served
    assert ids is None or list(ids) == expected


def test_words_serve_no_cased_tokenizer_and_no_other():
    cased = train_wordpiece(DOCUMENTS, vocab_size=70, lowercase=False).backend_tokenizer
    byte_pairs = ByteLevelBPETokenizer()._tokenizer
    assert [Words(one).ids_of("the cat") for one in (cased, byte_pairs)] == [None, None]
