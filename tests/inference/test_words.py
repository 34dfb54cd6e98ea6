"""Words of a text: those of CoNLL-2003 for English, whole in every script."""

# ruff: noqa: RUF001

from __future__ import annotations

import pytest

from road_ray.inference.tagged_words import words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Mr. Waugh didn't go to Ann's U.S. home.", "Mr. Waugh did n't go to Ann 's U.S. home ."),
        ("On 1996-08-28, shares of C$ 1,000.50 rose 3.5% (6-4).",
         "On 1996-08-28 , shares of C$ 1,000.50 rose 3.5 % ( 6-4 ) ."),
        ("1. Germany, 12:30... all-rounder AT&T O'Brien -- we'll",
         "1. Germany , 12:30 ... all-rounder AT&T O'Brien -- we 'll"),
        ("In 1996. Then e-mail a@b.com!", "In 1996 . Then e-mail a@b.com !"),
        ("हिन्दी में लिखा है।", "हिन्दी में लिखा है ।"),
        ("ภาษาไทย น้ำ", "ภาษาไทย น้ำ"),
        ("كِتَابٌ، جَدِيدٌ", "كِتَابٌ ، جَدِيدٌ"),
        ("cafe\u0301 Bru\u0308ssel, cafe\u0301's", "cafe\u0301 Bru\u0308ssel , cafe\u0301 's"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("日本語、テスト", "日本語 、 テスト"),
        ("\u2764\ufe0f ok", "\u2764\ufe0f ok"),
    ],
)  # fmt: skip
def test_words_of_a_text(text, words):
    assert words_of(text) == tuple(words.split(" "))
    assert "".join(words_of(text)) == "".join(text.split())  # no character is lost


def test_a_long_text_without_spaces_takes_no_time():
    for unit in ("a", "1", "a-", "a.", "1,", "'", "-", "a'", "\u0301", "1a"):
        text = unit * 20_000
        assert "".join(words_of(text)) == text


@pytest.mark.parametrize(
    ("file", "most"), [("eng.train", 0.005), ("eng.testa", 0.004), ("eng.testb", 0.016)]
)
def test_words_of_conll_are_those_of_its_annotators(real_data, file, most):
    text = (real_data / "conll2003" / file).read_text(encoding="utf-8")
    sentences = [
        [line.split(" ")[0] for line in block.split("\n") if line]
        for block in text.split("\n\n")
        if block.strip() and "-DOCSTART-" not in block
    ]
    others = sum(words_of(" ".join(words)) != tuple(words) for words in sentences)
    assert others <= most * len(sentences)
