"""Encode questions about a context as windows of token ids, with offsets and answer positions.

Every distinct context and question is tokenised once, in batches; array operations then make the
windows of thousands of questions at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.batch_tokenization import tokenized
from road_ray.data.features.examples_and_features import Features, Ints, Longs, SpanExample
from road_ray.data.features.ragged import Ragged, ranges, starts_of
from road_ray.data.features.special_tokens import SpecialTokens, special_tokens
from road_ray.data.features.text_rows import assembled
from road_ray.data.task_and_dataset import Dataset
from road_ray.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_QUESTIONS_AT_A_TIME = 4096  # bounds the memory of the index arrays

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Windows:
    """Windows over contexts in the order of the questions, ``[R]`` each."""

    question: Longs  # which question of this part
    start: Longs  # first token, counted within the context
    length: Longs  # context tokens
    rank: Longs  # 0 for the first window of a question


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
    """Return rows ``[CLS] question [SEP] window [SEP]``, at least one a question, in order.

    Windows start every ``stride_tokens`` tokens (BERT's ``doc_stride``; Hugging Face's ``stride``
    is the overlap instead) until one reaches the end of the context. Answer positions are
    those of the tokens that cover the first answer; 0, 0 in a window without all of it. Training
    rows have no ``offsets`` and ``max_context``, which take two thirds of the memory.

    Source: google bert, run_squad.py, convert_examples_to_features and _check_is_max_context.
    """
    special = special_tokens(tokenizer, 2)
    _check_limits(max_length_tokens, stride_tokens, max_question_tokens, special.count)
    questions = tokenized([example.question for example in examples], tokenizer)
    contexts = tokenized([example.context for example in examples], tokenizer, offsets=True)
    cut = int((questions.lengths > max_question_tokens).sum())
    if cut:
        _log.info("%s: cut %d questions to %d tokens", dataset.name, cut, max_question_tokens)
    questions = questions.truncated(np.minimum(questions.lengths, max_question_tokens))
    gold = _gold_tokens(examples, contexts, dataset)
    parts = []
    for first in range(0, len(examples), _QUESTIONS_AT_A_TIME):
        part = slice(first, first + _QUESTIONS_AT_A_TIME)
        part_questions, part_contexts = questions.rows(part), contexts.rows(part)
        room = max_length_tokens - special.count - part_questions.lengths
        windows = _windows(part_contexts.lengths, room, stride_tokens)
        rows = _rows(windows, part_questions, part_contexts, special)
        rows |= _gold_positions(windows, rows["first_segment"], gold[part])
        rows["example"] = (windows.question + first).astype(np.int32)
        if not train:
            rows |= _marks(windows, rows, part_contexts)
        parts.append(rows)
    features = _joined(parts, dataset, train)
    if train:
        _warn_of_answers_without_window(features, examples, gold)
    return features


def _warn_of_answers_without_window(
    features: Features, examples: Sequence[SpanExample], gold: Longs
) -> None:
    """Warn of questions whose answer is in no window; they are trained as unanswerable."""
    held = np.zeros(len(examples), np.bool_)
    held[features.example[features.gold["start_positions"] > 0]] = True
    lost = np.flatnonzero((gold[:, 0] >= 0) & ~held)
    if len(lost):
        text = "%s: %d answers fit no window; trained as unanswerable. The first: %s"
        first = examples[lost[0]]
        where = first.where if first.id in first.where else f"{first.where}, question {first.id}"
        _log.warning(f"{text}\n  fix: raise max_length_tokens", features.dataset, len(lost), where)


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


def _windows(context_lengths: Longs, room: Longs, stride: int) -> _Windows:
    """Return the windows of ``[Q]`` questions, given context lengths and room in a row."""
    step = np.minimum(stride, room)
    count = 1 + np.maximum(0, -(-(context_lengths - room) // step))
    question = np.repeat(np.arange(len(count)), count)
    rank = ranges(np.zeros_like(count), count)
    start = rank * step[question]
    length = np.minimum(context_lengths[question] - start, room[question])
    return _Windows(question, start, length, rank)


def _rows(
    windows: _Windows, questions: Ragged, contexts: Ragged, special: SpecialTokens
) -> dict[str, NDArray[Any]]:
    """Return token ids with special tokens, row lengths, and lengths of the first segment."""
    question_rows = questions.rows(windows.question)
    begin = contexts.starts[windows.question] + windows.start
    shown = replace(contexts, starts=begin, lengths=windows.length)
    tokens, lengths = assembled([question_rows, shown], special)
    first_segment = len(special.before) + question_rows.lengths + len(special.between)
    return {"tokens": tokens, "lengths": lengths, "first_segment": first_segment.astype(np.int32)}


def _gold_tokens(examples: Sequence[SpanExample], contexts: Ragged, dataset: Dataset) -> Longs:
    """Return first and last context token of the first answer, ``[Q, 2]``; -1 without one."""
    assert contexts.offsets is not None
    gold = np.full((len(examples), 2), -1, np.int64)
    answered = np.array(
        [i for i, e in enumerate(examples) if e.answers and contexts.lengths[i]], np.int64
    )
    # Contexts are placed one after another, each as wide as the widest, so that one binary search
    # serves all questions.
    origin = contexts.starts[answered]
    width = 1 + max((len(example.context) for example in examples), default=0)
    firsts = np.unique(contexts.starts[contexts.lengths > 0])
    token_text = np.searchsorted(firsts, np.arange(len(contexts.ids)), side="right") - 1
    token_start = contexts.offsets[:, 0] + token_text * width
    token_end = contexts.offsets[:, 1] + token_text * width
    answers = [examples[i].answers[0] for i in answered]
    begin = np.array([answer.start for answer in answers], np.int64) + token_text[origin] * width
    end = begin + np.array([len(answer.text) for answer in answers], np.int64)
    gold[answered, 0] = np.searchsorted(token_end, begin, side="right") - origin
    gold[answered, 1] = np.searchsorted(token_start, end, side="left") - 1 - origin
    bare = np.array([bool(e.answers) for e in examples], np.bool_)
    bare &= (gold[:, 0] > gold[:, 1]) | (gold[:, 0] < 0)
    if bare.any():
        text = "answers hold no token (only spaces or control characters)"
        _log.warning("%s: %d %s", dataset.name, bare.sum(), text)
    gold[bare] = -1
    return gold


def _gold_positions(windows: _Windows, first_segment: Ints, gold: Longs) -> dict[str, NDArray[Any]]:
    """Return ``start_positions``, ``end_positions``, ``[R]``; 0 unless the row has all of it."""
    start, end = gold[windows.question].T
    held = (start >= windows.start) & (end < windows.start + windows.length) & (start >= 0)
    shift = first_segment - windows.start
    return {
        "start_positions": np.where(held, start + shift, 0),
        "end_positions": np.where(held, end + shift, 0),
    }


def _marks(
    windows: _Windows, rows: Mapping[str, NDArray[Any]], contexts: Ragged
) -> dict[str, NDArray[Any]]:
    """Return ``offsets`` and ``max_context`` of every token, -1 and False outside the context."""
    assert contexts.offsets is not None
    lengths = rows["lengths"]
    places = ranges(starts_of(lengths) + rows["first_segment"], windows.length)
    offsets = np.full((int(lengths.sum()), 2), -1, np.int32)
    source = contexts.starts[windows.question] + windows.start
    offsets[places] = contexts.offsets[ranges(source, windows.length)]
    best = np.zeros(len(offsets), np.bool_)
    best[places] = _max_context(windows, contexts.lengths)
    return {"offsets": offsets, "max_context": best}


def _max_context(windows: _Windows, context_lengths: Longs) -> NDArray[np.bool_]:
    """Return, for every context token of every window, True if no window has more context for it.

    The context of a token is the smaller number of tokens to its left or right, plus 0.01 for each
    token of the window (counted in hundredths, as whole numbers); the first of equal windows wins.
    """
    inside = ranges(np.zeros_like(windows.length), windows.length)
    row = np.repeat(np.arange(len(windows.length)), windows.length)
    length = windows.length[row]
    score = 100 * np.minimum(inside, length - 1 - inside) + length
    most = int(windows.rank.max(initial=0)) + 1
    score = score * most + (most - 1 - windows.rank[row])
    token = starts_of(context_lengths)[windows.question[row]] + windows.start[row] + inside
    best = np.full(int(context_lengths.sum()), -1, np.int64)
    np.maximum.at(best, token, score)
    is_best: NDArray[np.bool_] = score == best[token]
    return is_best


def _joined(parts: list[dict[str, NDArray[Any]]], dataset: Dataset, train: bool) -> Features:
    def concatenated(name: str, dtype: Any) -> NDArray[Any]:
        return np.concatenate([np.zeros((0,), dtype), *(part[name] for part in parts)]).astype(
            dtype
        )

    offsets: Ints | None = None
    if not train:
        offsets = np.concatenate([np.zeros((0, 2), np.int32), *(part["offsets"] for part in parts)])
    lengths = concatenated("lengths", np.int64)
    return Features(
        dataset=dataset.name,
        task=dataset.task,
        tokens=concatenated("tokens", np.int32),
        bounds=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        first_segment=concatenated("first_segment", np.int32),
        gold={name: concatenated(name, np.int64) for name in ("start_positions", "end_positions")},
        example=concatenated("example", np.int32),
        offsets=offsets,
        max_context=None if train else concatenated("max_context", np.bool_),
    )
