"""Windows by hand, against BERT's loop and on real questions; offsets of tokenizers of any kind."""

import logging

import numpy as np
import pytest

from road_ray.data.catalog import dataset, task
from road_ray.data.encode_examples import encode
from road_ray.data.examples import Answer, SpanExample
from tests.published import FAMILIES, TEXTS, tokenizer_of

CONTEXT = "a b c d e f g h i j k l"


def ask(context, *answers, question="q r", id="1"):
    return SpanExample(id, question, context, answers, "test")


def small(examples, tokenizer, train=False):
    limits = {"max_length_tokens": 10, "stride_tokens": 2}
    return encode(examples, dataset("squad_v2"), task("squad_v2"), tokenizer, limits, train=train)


def words(rows, row, tokenizer):
    return " ".join(tokenizer.convert_ids_to_tokens([int(token) for token in rows.row(row)]))


def test_a_window_without_its_answer_learns_silence(letters, caplog):
    within = ask(CONTEXT, Answer("e f g", 8), Answer("a", 0))  # the first counts
    across = ask(CONTEXT, Answer("b c d e f g", 2), id="2")
    rows = small([within, across], letters, train=True)
    assert (rows.dataset, rows.task) == ("squad_v2", "mrc")
    assert (rows.first_segment == 4).all()
    assert rows.example.tolist() == [0] * 5 + [1] * 5
    # c d e f g and e f g h i hold the first; six tokens are whole in no window of five.
    assert rows.gold["start_positions"].tolist() == [0, 6, 4, 0, 0, *[0] * 5]
    assert rows.gold["end_positions"].tolist() == [0, 8, 6, 0, 0, *[0] * 5]
    message = "squad_v2: 1 answers fit no window; trained as unanswerable. The first: test"
    assert f"{message}, question 2" in caplog.text
    caplog.clear()
    small([within, ask(CONTEXT)], letters, train=True)
    assert not caplog.text


def test_a_context_without_tokens_still_gives_a_row(letters):
    rows = small([ask("", id="1"), ask(" \n", id="2"), ask("a", id="3")], letters)
    assert words(rows, 0, letters) == words(rows, 1, letters) == "[CLS] q r [SEP] [SEP]"
    assert rows.example.tolist() == [0, 1, 2]


def test_an_answer_without_tokens_counts_as_none(letters, caplog):
    with caplog.at_level(logging.WARNING):
        rows = small([ask("a  b", Answer("  ", 1))], letters)
    assert rows.gold["start_positions"].tolist() == [0]
    assert "1 answers hold no token" in caplog.text


def test_long_questions_are_cut(letters, caplog):
    with caplog.at_level(logging.INFO):
        rows = small([ask("a b", question="q r s a b c d")], letters)
    assert words(rows, 0, letters) == "[CLS] q r s a b c [SEP] a [SEP]"
    assert "cut 1 questions to 6 tokens" in caplog.text
    rows = whole([ask("a b", question="q " * 99)], letters)
    assert rows.lengths.tolist() == [64 + 2 + 3]


def test_gold_covers_the_answer_in_any_script(letters):
    rng = np.random.default_rng(1)
    characters = [*"ab .-\t", "é", "e\u0301", "½", "ﬁ", "中", "\u200b", "İ", "😀", "ß", "\x01"]
    contexts = ["".join(rng.choice(characters, 30)) for _ in range(40)]
    examples = []
    for n in range(400):
        context = contexts[n % 40]
        start, end = sorted(int(c) for c in rng.choice(len(context) + 1, 2, replace=False))
        examples.append(ask(context, Answer(context[start:end], start), question="q"))
    rows = whole(examples, letters, max_length_tokens=100)
    assert rows.offsets is not None
    for r, example in enumerate(examples):
        offsets = rows.offsets[rows.bounds[r] : rows.bounds[r + 1]]
        answer = example.answers[0]
        end = answer.start + len(answer.text)
        touched = [p for p, (s, e) in enumerate(offsets) if e > answer.start and 0 <= s < end]
        gold = [int(rows.gold[f"{side}_positions"][r]) for side in ("start", "end")]
        assert gold == ([touched[0], touched[-1]] if touched else [0, 0])


def bert_windows(tokens, room, stride):
    """google bert, run_squad.py: the doc-stride loop and _check_is_max_context, token by token."""
    spans, start = [], 0
    while start < tokens:
        length = min(tokens - start, room)
        spans.append((start, length))
        if start + length == tokens:
            break
        start += min(length, stride)

    def best(position):
        scores = [
            min(position - s, s + n - 1 - position) + 0.01 * n if s <= position < s + n else -1.0
            for s, n in spans
        ]
        return scores.index(max(scores))

    return spans, [[best(p) == i for p in range(s, s + n)] for i, (s, n) in enumerate(spans)]


@pytest.mark.parametrize("side", ["right", "left"])
def test_windows_and_max_context_are_those_of_bert(letters, side, monkeypatch):
    monkeypatch.setattr(letters, "truncation_side", side)
    rng = np.random.default_rng(0)
    for _ in range(60):
        tokens, room, stride = (int(n) for n in rng.integers([1, 1, 1], [60, 20, 25]))
        context = " ".join(rng.choice(list("abcdefghijkl"), tokens))
        limits = {"max_length_tokens": room + 4, "stride_tokens": stride}
        rows = whole([ask(context, question="q")], letters, **limits)
        spans, best = bert_windows(tokens, room, stride)
        assert rows.max_context is not None
        assert rows.offsets is not None
        assert sorted(rows.offsets[rows.max_context, 0]) == [*range(0, 2 * tokens, 2)]
        marks = [m[3:-1].tolist() for m in np.split(rows.max_context, rows.bounds[1:-1])]
        assert [len(m) for m in marks] == [length for _, length in spans]
        assert marks == best


def whole(examples, tokenizer, **limits):
    return encode(examples, dataset("squad_v1"), task("squad_v1"), tokenizer, limits)


@pytest.mark.parametrize("family", FAMILIES)
def test_offsets_show_letters_without_the_space_before_them(family):
    for text in TEXTS:
        rows = whole([SpanExample("1", "who?", text, (), "f:1")], tokenizer_of(family))
        shown = [text[a:b] for a, b in rows.offsets if a >= 0]
        assert [part.strip() or part for part in shown] == shown  # a token of a space alone


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_the_tokens_that_show_them(family):
    context = TEXTS[1]
    for text in ("New Zealand", "1995", "Nobody"):
        answer = Answer(text, context.index(text))
        rows = whole([SpanExample("1", "who?", context, (answer,), "f:1")], tokenizer_of(family))
        first, last = (int(rows.gold[f"{end}_positions"][0]) for end in ("start", "end"))
        begin, end = rows.offsets[first][0], rows.offsets[last][1]
        assert text in context[begin:end]
        assert len(context[begin:end]) <= len(text) + 1  # a final letter may share its piece
        assert (rows.offsets[: rows.first_segment[0]] == -1).all()
