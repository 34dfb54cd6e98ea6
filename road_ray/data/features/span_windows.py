"""Questions about a context as windows of token ids, with offsets and answer positions.

The windows are those of ``tokenizer(question, context, truncation="only_second", stride=...)``.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Features, Ints, Longs, SpanExample
from road_ray.data.features.text_rows import (
    ROWS_AT_A_TIME,
    TokenRows,
    check_fast,
    joined,
    packed,
    some_rows,
    tokenized,
)
from road_ray.data.task_and_dataset import Dataset
from road_ray.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_IS_LETTER = np.array([not chr(code).isspace() for code in range(0x3002)])  # no spaces beyond

_log = logging.getLogger(__name__)


class _Windows(NamedTuple):
    """Windows of one question, in order."""

    rows: TokenRows
    start: Longs  # [R] first token, counted within the context
    length: Longs  # [R] context tokens
    offsets: Ints  # [context tokens, 2] characters of each, without the spaces at its ends

    def gold(self, example: SpanExample) -> tuple[Longs, Longs, bool | None]:
        """Return start and end positions ``[R]``, 0 unless the window has the whole first answer;
        and True if a window has it, None if the answer holds no token.
        """
        none = np.zeros(len(self.start), np.int64)
        if not example.answers:
            return none, none, True
        begin = example.answers[0].start
        end = begin + len(example.answers[0].text)
        if not len(self.offsets):  # a context without tokens
            return none, none, None
        first = int(np.searchsorted(self.offsets[:, 1], begin, side="right"))
        last = int(np.searchsorted(self.offsets[:, 0], end, side="left")) - 1
        if first > last:
            return none, none, None
        held = (first >= self.start) & (last < self.start + self.length)
        shift = self.rows["first_segment"] - self.start
        begins, ends = np.where(held, first + shift, 0), np.where(held, last + shift, 0)
        return begins, ends, bool(held.any())

    def shown(self) -> tuple[Ints, NDArray[np.bool_]]:
        """Return ``offsets`` and ``max_context`` of every token, -1 and False outside the context.

        The context of a token is the smaller number of tokens to its left or right, plus 0.01 for
        each token of the window; the window with most of it is marked, the first of equal ones.
        """
        count = int(self.rows["bounds"][-1])
        offsets, most = np.full((count, 2), -1, np.int32), np.zeros(count, np.bool_)
        # Of each token of the context; a score for each window would grow with its square.
        highest, best = np.full(len(self.offsets), -1, np.int64), np.zeros(len(self.offsets), int)
        for rank, (start, length) in enumerate(zip(self.start, self.length, strict=True)):
            inside = np.arange(length)
            scores = 100 * np.minimum(inside, length - 1 - inside) + length  # in hundredths
            better = start + inside[scores > highest[start + inside]]
            highest[better], best[better] = scores[better - start], rank
        begins = self.rows["bounds"][:-1] + self.rows["first_segment"]
        for rank, (start, length) in enumerate(zip(self.start, self.length, strict=True)):
            place, source = begins[rank] + np.arange(length), start + np.arange(length)
            offsets[place], most[place] = self.offsets[source], best[source] == rank
        return offsets, most


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
    _check_limits(max_length_tokens, stride_tokens, max_question_tokens, special)
    parts: list[TokenRows] = []
    starts, ends, lost, bare, counts = [], [], [], 0, []
    offsets, most_context = [np.zeros((0, 2), np.int32)], [np.zeros(0, np.bool_)]
    limits = (max_length_tokens - special, stride_tokens, max_question_tokens)
    for example, of in _all_windows(examples, dataset.name, tokenizer, *limits):
        begins, finishes, held = of.gold(example)
        starts.append(begins)
        ends.append(finishes)
        counts.append(len(begins))
        bare += held is None
        if held is False:
            lost.append(example)
        if not train:
            shown, most = of.shown()
            offsets.append(shown)
            most_context.append(most)
        parts.append(of.rows)
    if bare:
        text = "answers hold no token (only spaces or control characters)"
        _log.warning("%s: %d %s", dataset.name, bare, text)
    if train and lost:
        _warn_of_answers_without_window(dataset.name, lost)
    none = [np.zeros(0, np.int64)]
    return Features(
        dataset=dataset.name,
        task=dataset.task,
        gold={
            "start_positions": np.concatenate(none + starts),
            "end_positions": np.concatenate(none + ends),
        },
        example=np.repeat(np.arange(len(examples), dtype=np.int32), counts),
        max_length_tokens=max_length_tokens,
        offsets=None if train else np.concatenate(offsets),
        max_context=None if train else np.concatenate(most_context),
        **joined(parts),
    )


def _all_windows(
    examples: Sequence[SpanExample],
    name: str,
    tokenizer: PreTrainedTokenizerFast,
    room: int,
    stride: int,
    most: int,
) -> Iterator[tuple[SpanExample, _Windows]]:
    """Yield each example with its windows. ``room`` are the tokens of a row beside special ones,
    ``most`` those of a question.
    """
    for first in range(0, len(examples), ROWS_AT_A_TIME):
        chunk = examples[first : first + ROWS_AT_A_TIME]
        questions = _cut(chunk, tokenizer, most, name)
        contexts = [example.context for example in chunk]
        windows = _windows(questions, contexts, tokenizer, room, stride)
        yield from zip(chunk, windows, strict=True)


def _warn_of_answers_without_window(name: str, lost: Sequence[SpanExample]) -> None:
    """Warn of questions whose answer is in no window; they are trained as unanswerable."""
    text = "%s: %d answers fit no window; trained as unanswerable. The first: %s"
    first = lost[0]
    where = first.where if first.id in first.where else f"{first.where}, question {first.id}"
    _log.warning(f"{text}\n  fix: raise max_length_tokens", name, len(lost), where)


def _check_limits(max_length: int, stride: int, max_question: int, num_special: int) -> None:
    if stride < 1 or max_question < 1:
        raise ConfigError(
            f"stride_tokens = {stride} and max_question_tokens = {max_question}: "
            "both must be at least 1"
        )
    if max_length <= max_question + num_special:
        raise ConfigError(
            f"max_length_tokens = {max_length} leaves no room for the context beside a question of "
            f"max_question_tokens = {max_question} and {num_special} special tokens\n"
            f"  fix: max_length_tokens >= {max_question + num_special + 1}"
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
    contexts: Sequence[str],
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
            [contexts[number] for number in numbers],
            truncation="only_second",
            max_length=room + special,
            stride=room - length - step,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        rows = packed(encoded, tokenizer, num_texts=2)
        counts = np.array([of.sequence_ids.count(1) for of in encoded.encodings or []], np.int64)
        bounds = np.searchsorted(
            encoded["overflow_to_sample_mapping"], np.arange(len(numbers) + 1)
        ).tolist()
        for number, first, end in zip(numbers, bounds[:-1], bounds[1:], strict=True):
            own, starts = some_rows(rows, first, end), step * np.arange(end - first)
            shown = encoded["offset_mapping"][first:end]
            offsets = _context_offsets(shown, own["first_segment"], starts, counts[first:end])
            offsets = without_spaces(contexts[number], offsets)
            windows[number] = _Windows(own, starts, counts[first:end], offsets)
    return [windows[number] for number in range(len(questions))]


def _context_offsets(
    shown: Sequence[Sequence[tuple[int, int]]], begins: Ints, starts: Longs, counts: Longs
) -> Ints:
    """Return the offsets of all tokens of a context, given those of its windows."""
    offsets = np.zeros((int(starts[-1] + counts[-1]), 2), np.int32)
    for row, begin, start, count in zip(shown, begins, starts, counts, strict=True):
        if count:
            offsets[start : start + count] = row[begin : begin + count]
    return offsets


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
