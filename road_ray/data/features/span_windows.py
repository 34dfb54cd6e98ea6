"""Questions about a context as windows of token ids, with offsets and answer positions.

The windows are those of ``tokenizer(question, context, truncation="only_second", stride=...)``.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from road_ray.data.examples import Features, Ints, SpanExample
from road_ray.data.features.text_rows import (
    ROWS_AT_A_TIME,
    RowsOfTokens,
    check_fast,
    second_begins,
    tokenized,
)
from road_ray.data.task_and_dataset import Dataset
from road_ray.errors import ConfigError

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import PreTrainedTokenizerFast

_IS_LETTER = np.array([not chr(code).isspace() for code in range(0x3002)])  # no spaces beyond

_log = logging.getLogger(__name__)


class _Windows(NamedTuple):
    """Windows of one question, in order."""

    encodings: list[Encoding]
    begin: list[int]  # position of the first context token in each
    start: list[int]  # number of that token within the context
    length: list[int]  # context tokens
    offsets: Ints  # [context tokens, 2] characters of each, without the spaces at its ends


def encode_spans(
    examples: Sequence[SpanExample],
    dataset: Dataset,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int = 384,
    stride_tokens: int = 128,
    max_question_tokens: int = 64,
    train: bool,
) -> Features:
    """Return rows of a question and a window of its context, at least one a question, in order.

    Windows start every ``stride_tokens`` tokens (BERT's ``doc_stride``; Hugging Face's ``stride``
    is the overlap instead) until one reaches the end of the context. Answer positions are
    those of the tokens that cover the first answer; 0, 0 in a window without all of it. Training
    rows have no ``offsets`` and ``max_context``, which take two thirds of the memory.

    Source: google bert, run_squad.py, convert_examples_to_features and _check_is_max_context.
    """
    check_fast(tokenizer)
    special = tokenizer.num_special_tokens_to_add(pair=True)
    _check_limits(max_length_tokens, max_question_tokens, special)
    made = RowsOfTokens(tokenizer, num_texts=2)
    gold: list[tuple[int, int]] = []  # first and last token of the answer in each row
    lost, bare, counts = [], 0, []
    shown = [(np.zeros((0, 2), np.int32), np.zeros(0, np.bool_))]
    for begin in range(0, len(examples), ROWS_AT_A_TIME):
        chunk = examples[begin : begin + ROWS_AT_A_TIME]
        questions = _cut(chunk, tokenizer, max_question_tokens, dataset.name)
        windows = _windows(questions, chunk, tokenizer, max_length_tokens - special, stride_tokens)
        for example, of in zip(chunk, windows, strict=True):
            counts.append(len(of.encodings))
            answer = _answer_tokens(example, of.offsets)
            places = [_place(answer, *window) for window in zip(*of[1:4], strict=True)]
            gold += places
            bare += bool(example.answers) and answer is None
            if answer is not None and not any(place != (0, 0) for place in places):
                lost.append(example)
            if not train:
                shown.append(_shown(of))
            made.add(of.encodings)
    if bare:
        _log.warning("%s: %d answers hold no token, only spaces or controls", dataset.name, bare)
    if train and lost:
        text = "%s: %d answers fit no window; trained as unanswerable. The first: %s, question %s"
        fix = "\n  fix: raise max_length_tokens"
        _log.warning(text + fix, dataset.name, len(lost), lost[0].where, lost[0].id)
    offsets, most_context = (np.concatenate(values) for values in zip(*shown, strict=True))
    starts, ends = np.array(gold, np.int64).reshape(-1, 2).T
    return Features(
        dataset=dataset.name,
        task=dataset.task,
        gold={"start_positions": starts.copy(), "end_positions": ends.copy()},
        example=np.repeat(np.arange(len(examples), dtype=np.int32), counts),
        max_length_tokens=max_length_tokens,
        offsets=None if train else offsets,
        max_context=None if train else most_context,
        **made.fields(),
    )


def _answer_tokens(example: SpanExample, offsets: Ints) -> tuple[int, int] | None:
    """Return the first and the last token of the context that cover the first answer; None if there
    is no answer, or if it holds no token.
    """
    if not example.answers or not len(offsets):
        return None
    begin = example.answers[0].start
    end = begin + len(example.answers[0].text)
    first = int(np.searchsorted(offsets[:, 1], begin, side="right"))
    last = int(np.searchsorted(offsets[:, 0], end, side="left")) - 1
    return (first, last) if first <= last else None


def _place(answer: tuple[int, int] | None, begin: int, start: int, length: int) -> tuple[int, int]:
    """Return the positions of the answer's tokens in a window; 0, 0 unless it has all of them."""
    if answer is None or answer[0] < start or answer[1] >= start + length:
        return 0, 0
    return begin + answer[0] - start, begin + answer[1] - start


def _shown(of: _Windows) -> tuple[Ints, NDArray[np.bool_]]:
    """Return ``offsets`` and ``max_context`` of every token, -1 and False outside the context.

    The context of a token is the smaller number of tokens to its left or right, plus 0.01 for
    each token of the window; the window with most of it is marked, the first of equal ones.
    """
    # Of each token of the context; a score for each window would grow with its square.
    highest, best = np.full(len(of.offsets), -1, np.int64), np.zeros(len(of.offsets), int)
    for rank, (start, length) in enumerate(zip(of.start, of.length, strict=True)):
        inside = np.arange(length)
        scores = 100 * np.minimum(inside, length - 1 - inside) + length  # in hundredths
        better = start + inside[scores > highest[start + inside]]
        highest[better], best[better] = scores[better - start], rank
    rows, marks = [], []
    for rank, encoding in enumerate(of.encodings):
        count = max(len(encoding.ids), 1)  # a row without tokens gets one
        offsets, most = np.full((count, 2), -1, np.int32), np.zeros(count, np.bool_)
        row = slice(of.begin[rank], of.begin[rank] + of.length[rank])
        source = slice(of.start[rank], of.start[rank] + of.length[rank])
        offsets[row], most[row] = of.offsets[source], best[source] == rank
        rows.append(offsets)
        marks.append(most)
    return np.concatenate(rows), np.concatenate(marks)


def _check_limits(max_length: int, max_question: int, num_special: int) -> None:
    if max_length <= max_question + num_special:
        raise ConfigError(
            f"max_length_tokens = {max_length} leaves no room for the context beside a question of "
            f"max_question_tokens = {max_question} and {num_special} special tokens\n"
            f"  fix: data.max_length_tokens={max_question + num_special + 1} or more, or fewer "
            "data.max_question_tokens"
        )


def _cut(
    examples: Sequence[SpanExample], tokenizer: PreTrainedTokenizerFast, most: int, name: str
) -> list[tuple[str, int]]:
    """Return each question, cut after its last allowed token, and its number of tokens."""
    texts = list(dict.fromkeys(example.question for example in examples))
    encoded = tokenized(tokenizer, texts, add_special_tokens=False, return_offsets_mapping=True)
    cut: dict[str, tuple[str, int]] = {}
    for text, ids, offsets in zip(
        texts, encoded["input_ids"], encoded["offset_mapping"], strict=True
    ):
        shorter, count, end = text, len(ids), most
        while count > most:  # the part alone may have a token more than it had in the whole
            shorter = text[: offsets[end - 1][1]] if end else ""
            plain = tokenized(tokenizer, shorter, add_special_tokens=False)
            count, end = len(plain["input_ids"]), end - 1
        cut[text] = (shorter, count)
    number = sum(cut[example.question][0] != example.question for example in examples)
    if number:
        _log.info("%s: cut %d questions to %d tokens", name, number, most)
    return [cut[example.question] for example in examples]


def _windows(
    questions: Sequence[tuple[str, int]],
    examples: Sequence[SpanExample],
    tokenizer: PreTrainedTokenizerFast,
    room: int,
    stride: int,
) -> list[_Windows]:
    """Return the windows of questions in rows with ``room`` tokens beside special ones. One call of
    the tokenizer serves the questions of equal length, whose windows have the same overlap.
    """
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, (_, length) in enumerate(questions):
        by_length[length].append(number)
    windows: dict[int, _Windows] = {}
    special = tokenizer.num_special_tokens_to_add(pair=True)
    for length, numbers in by_length.items():
        step = min(stride, room - length)
        encoded = tokenized(
            tokenizer,
            [questions[number][0] for number in numbers],
            [examples[number].context for number in numbers],
            truncation="only_second",
            max_length=room + special,
            stride=room - length - step,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        encodings = encoded.encodings or []
        of_number: dict[int, list[Encoding]] = defaultdict(list)
        for sample, encoding in zip(encoded["overflow_to_sample_mapping"], encodings, strict=True):
            of_number[numbers[sample]].append(encoding)
        for number, own in of_number.items():
            texts = [encoding.sequence_ids for encoding in own]
            begins, counts = list(map(second_begins, texts)), [of.count(1) for of in texts]
            starts = [step * rank for rank in range(len(own))]
            offsets = np.zeros((starts[-1] + counts[-1], 2), np.int32)
            for encoding, begin, start, count in zip(own, begins, starts, counts, strict=True):
                if count:
                    offsets[start : start + count] = encoding.offsets[begin : begin + count]
            offsets = without_spaces(examples[number].context, offsets)
            windows[number] = _Windows(own, begins, starts, counts, offsets)
    return [windows[number] for number in range(len(questions))]


def without_spaces(text: str, offsets: Ints) -> Ints:
    """Return the offsets without the spaces at both ends of a token, which byte-level and Unigram
    tokenizers include or not, depending on the version.
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    letters = _IS_LETTER[np.minimum(codes, 0x3001)]
    before = np.concatenate([[0], np.cumsum(letters)])  # letters before each place
    places = np.append(np.flatnonzero(letters), len(text))
    first, last = before[offsets[:, 0]], before[offsets[:, 1]]
    shown = np.stack([places[first], places[last - 1] + 1], 1).astype(np.int32)
    return np.where((last > first)[:, None], shown, offsets)
