"""Words looked up: the ids of the tokenizer itself, whatever the text holds."""

from __future__ import annotations

import json
import random

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import NFD, BertNormalizer, Lowercase, Replace, Sequence, StripAccents
from tokenizers.pre_tokenizers import BertPreTokenizer, Metaspace, Whitespace

from road_ray.data.features.wordpiece_cache import WordPieceCache, tokenizes_by_word

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCAB = {
    word: number
    for number, word in enumerate(
        [
            *("[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{x}" for x in LETTERS)),
            *("the", "cat", "##ing", "play", *"0123456789.,!?-'東\u03c3\u03bf"),
            *("##\u03c2", "##\u03c3"),
        ]
    )
}
NASTY = [
    "",
    " ",
    "  two  spaces ",
    "Tab\tand\nnewline\r\nand\u00a0hard\u2003em\u3000wide",
    "Caf\u00e9 cafe\u0301 \u0301alone na\u00efve \u0130stanbul",
    "東京cat 東 \u039f\u0394\u039f\u03a3 \u03bf\u03b4\u03bf\u03c2. a\x00b\x1cc\u200dd\ufeff",
    "the [MASK] the[MASK]cat [SEP] [CLS] a[CLS][CLS]b [cls]",
    "the CAT, a Cat! cat",
    "playing! play-ing? 3.14,15 don't ...",
    "x" * 250,
    "\U0001f600 the \U0001f468\u200d\U0001f469",
]


def word_piece(normalizer=None, pre_tokenizer=None, specials=("[CLS]", "[SEP]", "[MASK]")):
    tokenizer = Tokenizer(WordPiece(VOCAB, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizer or BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizer or BertPreTokenizer()
    tokenizer.add_special_tokens(list(specials))
    return tokenizer


def plain(tokenizer, texts):
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def chance_texts(count):
    chance = random.Random(0)
    pieces = [*NASTY, *LETTERS, "the", "cat", "play", " ", " ", " ", ".", "\u0301", "\u03a3", "\n"]
    return ["".join(chance.choices(pieces, k=chance.randint(0, 40))) for _ in range(count)]


@pytest.mark.parametrize(
    "tokenizer",
    [
        word_piece(),
        word_piece(BertNormalizer(lowercase=False, strip_accents=False)),
        word_piece(Sequence([NFD(), Lowercase(), StripAccents()]), Whitespace()),
        word_piece(specials=("[UNK]", "[CLS]", "[SEP]", "[MASK]")),
        word_piece(specials=("cat",)),
    ],
    ids=["bert", "cased", "sequence", "unknown first", "a word"],
)
def test_ids_are_those_of_the_tokenizer(tokenizer):
    assert tokenizes_by_word(json.loads(tokenizer.to_str()))
    texts = NASTY + chance_texts(600)
    words = WordPieceCache(tokenizer)
    for given in (texts[:200], texts[200:], texts):
        assert [list(ids) for ids in words.encode(given)] == plain(tokenizer, given)


def test_the_memory_has_an_end_and_stays_right(monkeypatch):
    tokenizer = word_piece()
    words = WordPieceCache(tokenizer, most=50)
    texts = chance_texts(300)
    for first in range(0, 300, 20):
        part = texts[first : first + 20]
        assert [list(ids) for ids in words.encode(part)] == plain(tokenizer, part)
        assert len(words._known) <= 50


def test_a_word_is_given_to_the_tokenizer_once():
    calls = []

    class Counting:
        inner = word_piece()

        def to_str(self):
            return self.inner.to_str()

        def encode_batch_fast(self, texts, **options):
            calls.extend(word for text in texts for word in text.split(" [CLS] "))
            return self.inner.encode_batch_fast(texts, **options)

    words = WordPieceCache(Counting())
    words.encode(["the cat the cat", "cat play"])
    words.encode(["play the cat"])
    assert sorted(calls) == ["cat", "play", "the"]


@pytest.mark.parametrize(
    "tokenizer",
    [
        word_piece(Sequence([Replace("the cat", "dog"), BertNormalizer()])),
        word_piece(pre_tokenizer=Metaspace()),
        word_piece(specials=("[CLS]", AddedToken("the cat"))),
        word_piece(specials=()),
        word_piece(specials=("[UNK]",)),
        Tokenizer(BPE()),
    ],
    ids=[
        *("normalizer", "pre_tokenizer", "added token", "no special token", "only unknown"),
        "model",
    ],
)
def test_one_that_looks_beyond_a_space_is_asked_for_whole_texts(tokenizer):
    assert not tokenizes_by_word(json.loads(tokenizer.to_str()))
    texts = ["the cat the  cat", "play"]
    assert [list(ids) for ids in WordPieceCache(tokenizer).encode(texts)] == plain(tokenizer, texts)
