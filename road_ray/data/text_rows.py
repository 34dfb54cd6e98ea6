"""Rows of token ids as a tokenizer makes them, packed into arrays: texts, words with tags, and
questions with windows of a context, which have offsets and answer positions.

Special tokens, segments, truncation and windows are the tokenizer's: the inputs of a model equal
those of ``tokenizer(...)`` in plain ``transformers``. A word's label is at its first sub-token.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from road_ray.data.examples import UNKNOWN, Answer, Ints, SpanExample, TagExample
from road_ray.data.task_and_dataset import Tag, Task
from road_ray.errors import ConfigError, DataError

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import BatchEncoding, PreTrainedTokenizerFast

_log = logging.getLogger(__name__)

_QUESTION_TOKENS = 64  # the rest of a question is cut, as google-research/electra does
_ROWS_AT_A_TIME = 128  # a Rust encoding takes a hundred times the memory of its ids


def text_rows(
    columns: Sequence[Sequence[Any]],
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
    stride_tokens: int | None = None,
    of_words: bool = False,
) -> dict[str, Any]:
    """Return rows of one text or of two, truncated longest first, as fields of ``Features``; with
    ``stride_tokens`` the windows of one text, which begin so many tokens after each other (0: they
    do not overlap). ``of_words`` are texts that are lists of words, whose numbers are ``words``.
    """
    check_fast(tokenizer)
    special = tokenizer.num_special_tokens_to_add(pair=len(columns) == 2)
    options: dict[str, Any] = {"max_length": max_length_tokens, "is_split_into_words": of_words}
    if stride_tokens is not None:
        room = max_length_tokens - special
        overlap = room - min(stride_tokens or room, room)
        options |= {"return_overflowing_tokens": True, "stride": overlap}
    kind: dict[str, Any] = {"num_texts": len(columns), "of_words": of_words}
    parts = [packed([], tokenizer, **kind) | {"example": np.zeros(0, np.int32)}]
    rows, tokens = 0, 0
    for first in range(0, len(columns[0]), _ROWS_AT_A_TIME):
        chunk = [list(texts[first : first + _ROWS_AT_A_TIME]) for texts in columns]
        encoded = tokenized(tokenizer, *chunk, truncation=True, **options)
        encodings = encoded.encodings or []
        of = np.array(encoded.get("overflow_to_sample_mapping", range(len(encodings))), np.int32)
        parts.append(packed(encodings, tokenizer, **kind) | {"example": first + of})
        cut = [n for n, encoding in enumerate(encodings) if encoding.overflowing]
        # The rest of a pair overflows in several ways, so whole texts are counted.
        if cut and stride_tokens is None:
            whole = tokenized(tokenizer, *([texts[n] for n in cut] for texts in chunk))
            rows += len(cut)
            tokens += sum(map(len, whole["input_ids"]))
            tokens -= sum(len(encoded["input_ids"][n]) for n in cut)
    return joined(parts) | {"num_truncated": rows, "tokens_cut": tokens}


def check_fast(tokenizer: PreTrainedTokenizerFast) -> None:
    """Raise ``ConfigError`` for a slow tokenizer, which knows no offsets."""
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(
            f"{type(tokenizer).__name__} has no Rust tokenizer behind it\n"
            "  fix: use a fast tokenizer (tokenizer.json), which also gives character offsets"
        )


def tokenized(
    tokenizer: PreTrainedTokenizerFast, *columns: Any, **options: object
) -> BatchEncoding:
    """Return ``tokenizer(*columns, **options)``, windows from the first token on; the tokenizer
    then forgets the truncation, which would be saved with it.
    """
    call: Any = tokenizer
    side = call.truncation_side
    call.truncation_side = "right" if options.get("return_overflowing_tokens") else side
    try:
        encoded: BatchEncoding = call(
            *columns, return_attention_mask=False, padding=False, verbose=False, **options
        )
        return encoded
    finally:
        call.truncation_side = side
        tokenizer.backend_tokenizer.no_truncation()


def packed(
    encodings: Sequence[Encoding],
    tokenizer: PreTrainedTokenizerFast,
    *,
    num_texts: int = 1,
    of_words: bool = False,
) -> dict[str, NDArray[Any]]:
    """Return the numbers of encodings, one row after another, of which ``joined`` makes fields of
    ``Features``. A row without any token, of an empty text and a tokenizer without special tokens,
    gets the unknown token: a model cannot read nothing.
    """
    filler = next((n for n in (tokenizer.unk_token_id, tokenizer.pad_token_id) if n), 0)
    ids = [encoding.ids or [filler] for encoding in encodings]
    lengths = firsts = list(map(len, ids))
    if num_texts == 2:
        # The second text begins at its first token, or if it has none at the last special token.
        texts = (encoding.sequence_ids for encoding in encodings)
        firsts = [ids.index(1) if 1 in ids else max(len(ids) - 1, 0) for ids in texts]
    columns = {"tokens": (chain.from_iterable(ids), "i4"), "lengths": (lengths, "i8")}
    columns["first_segment"] = (firsts, "i4")
    if "token_type_ids" in tokenizer.model_input_names:
        types = chain.from_iterable(encoding.type_ids or [0] for encoding in encodings)
        columns["segments"] = (types, "i1")
    if of_words:
        words = chain.from_iterable(encoding.word_ids or [None] for encoding in encodings)
        columns["words"] = ((-1 if word is None else word for word in words), "i4")
    return {name: np.fromiter(values, dtype) for name, (values, dtype) in columns.items()}


def joined(parts: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, Any]:
    """Return the rows of all parts, with the bounds of each."""
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return rows | {"bounds": np.append(0, rows.pop("lengths").cumsum())}


def encode_tags(
    examples: Sequence[TagExample],
    task: Task,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
) -> dict[str, Any]:
    """Return rows of words, as fields of ``Features``; ``labels`` has -100 but at the first token
    of a word.

    A sentence that is too long continues in a further row. A word without sub-tokens, such as a
    control character, is in no row. Source: Devlin et al. 2019, section 5.3 (the first sub-token
    stands for the word).
    """
    labels = np.array(tag_numbers(examples, task), np.int64)
    texts = [list(example.words) for example in examples]
    rows = text_rows(
        [texts], tokenizer, max_length_tokens=max_length_tokens, stride_tokens=0, of_words=True
    )
    # The number of each word over all sentences: one that goes on in a further row has the same.
    words, examples_of = rows["words"], np.repeat(rows["example"], np.diff(rows["bounds"]))
    inside = np.flatnonzero(words >= 0)
    numbers = np.cumsum([0, *map(len, texts)])[examples_of[inside]] + words[inside]
    begins = np.diff(numbers, prepend=-1) != 0
    words[inside[~begins]] = -1
    gold = np.full(len(words), UNKNOWN, np.int64)
    gold[inside[begins]] = labels[numbers[begins]]
    return rows | {"gold": {"labels": gold}}


def tag_numbers(examples: Sequence[TagExample], task: Task) -> list[int]:
    """Return the class of every word. Raises ``DataError`` for an unknown tag."""
    assert isinstance(task.kind, Tag)
    known = {label: index for index, label in enumerate(task.kind.labels)}
    labels: list[int] = []
    for example in examples:
        for word, tag in enumerate(example.tags or [None] * len(example.words)):
            if tag is not None and tag not in known:
                raise DataError(
                    f"{example.where}: word {word + 1} ({example.words[word]!r}) has the tag "
                    f"{tag!r}, allowed: {', '.join(known)}\n"
                    "  fix: correct the row, or name the tags in `labels` of the data set's entry"
                )
            labels.append(UNKNOWN if tag is None else known[tag])
    return labels


def encode_spans(
    examples: Sequence[SpanExample],
    name: str,
    tokenizer: PreTrainedTokenizerFast,
    *,
    max_length_tokens: int,
    stride_tokens: int,
    train: bool,
) -> dict[str, Any]:
    """Return rows of a question and a window of its context, at least one a question, in order, as
    fields of ``Features``. ``name`` is that of the data set, for the log.

    Windows start every ``stride_tokens`` tokens (BERT's ``doc_stride``; Hugging Face's ``stride``
    is the overlap instead) until one reaches the end of the context. Answer positions are
    those of the tokens that cover the first answer; 0, 0 in a window without all of it. Training
    rows have no ``offsets`` and ``max_context``, which take two thirds of the memory.

    Source: google bert, run_squad.py, convert_examples_to_features and _check_is_max_context.
    """
    check_fast(tokenizer)
    parts = [packed([], tokenizer, num_texts=2)]
    none: dict[str, Any] = {"example": np.zeros(0, np.int32), "places": np.zeros((0, 2), np.int64)}
    none |= {"offsets": np.zeros((0, 2), np.int32), "max_context": np.zeros(0, np.bool_)}
    contexts = [{name: none[name] for name in (list(none)[:2] if train else none)}]
    lost, bare = list[SpanExample](), 0
    for begin in range(0, len(examples), _ROWS_AT_A_TIME):
        chunk = examples[begin : begin + _ROWS_AT_A_TIME]
        windows = _windows(chunk, tokenizer, max_length_tokens, stride_tokens, name)
        parts.append(packed([one for own, _ in windows for one in own], tokenizer, num_texts=2))
        firsts = iter(parts[-1]["first_segment"].tolist())
        for number, (example, (own, step)) in enumerate(zip(chunk, windows, strict=True), begin):
            part, has_token = _in_context(example, own, [*islice(firsts, len(own))], step, train)
            contexts.append(part | {"example": np.full(len(own), number, np.int32)})
            bare += bool(example.answers) and not has_token
            lost += [example] if has_token and not part["places"].any() else []
    if bare:
        _log.warning("%s: %d answers hold no token, only spaces or controls", name, bare)
    if train and lost:
        text = "%s: %d answers fit no window; trained as unanswerable. The first: %s, question %s"
        fix = "\n  fix: raise max_length_tokens"
        _log.warning(text + fix, name, len(lost), lost[0].where, lost[0].id)
    rows = joined(parts)
    rows |= {name: np.concatenate([part[name] for part in contexts]) for name in contexts[0]}
    starts, ends = rows.pop("places").T
    return rows | {"gold": {"start_positions": starts.copy(), "end_positions": ends.copy()}}


def _in_context(
    example: SpanExample,
    windows: Sequence[Encoding],
    begins: Sequence[int],
    step: int,
    train: bool,
) -> tuple[dict[str, NDArray[Any]], bool]:
    """Return ``places`` (of the first and the last token of the first answer; 0, 0 in a window
    without all of it) of each window and, unless to ``train``, ``offsets`` and ``max_context`` of
    each token; and True if the answer has a token. The context begins at ``begins`` in its window.

    The context of a token is the smaller number of tokens to its left or right, plus 0.01 for
    each token of the window; the window with most of it is marked, the first of equal ones.
    """
    texts = [encoding.sequence_ids or [None] for encoding in windows]  # a row has a token
    starts = [step * number for number in range(len(windows))]  # in tokens of the context
    lengths = [of_row.count(1) for of_row in texts]
    new = zip(windows, begins, [*[step] * (len(windows) - 1), lengths[-1]], strict=True)
    of_tokens = (pair for row, begin, count in new for pair in row.offsets[begin : begin + count])
    characters = without_spaces(example.context, of_tokens)
    answer = example.answers[0] if example.answers else Answer("", 0)
    inside = characters[:, 1] > answer.start
    covers = np.flatnonzero(inside & (characters[:, 0] < answer.start + len(answer.text)))
    places = np.zeros((len(windows), 2), np.int64)
    offsets = [np.full((len(of_row), 2), -1, np.int32) for of_row in texts]
    best = np.zeros((2, len(characters)), np.int64)  # score of a token in hundredths, its window
    for number, (start, begin, length) in enumerate(zip(starts, begins, lengths, strict=True)):
        if len(covers) and start <= covers[0] and covers[-1] < start + length:
            places[number] = covers[[0, -1]] - start + begin
        offsets[number][begin : begin + length] = characters[start : start + length]
        scores = 100 * np.minimum(np.arange(length), np.arange(length)[::-1]) + length
        seen = best[:, start : start + length]
        seen[:, scores > seen[0]] = np.stack([scores, np.full(length, number)])[:, scores > seen[0]]
    part: dict[str, NDArray[Any]] = {"places": places}
    if not train:
        most = [np.zeros(len(of_row), np.bool_) for of_row in texts]
        for number, (start, begin, length) in enumerate(zip(starts, begins, lengths, strict=True)):
            most[number][begin : begin + length] = best[1, start : start + length] == number
        part |= {"offsets": np.concatenate(offsets), "max_context": np.concatenate(most)}
    return part, len(covers) > 0


def _windows(
    examples: Sequence[SpanExample],
    tokenizer: PreTrainedTokenizerFast,
    max_length_tokens: int,
    stride: int,
    name: str,
) -> list[tuple[list[Encoding], int]]:
    """Return the windows of each example, and the tokens of the context from one to the next. A
    question is cut after its last allowed token. One call of the tokenizer serves the questions of
    equal length, whose windows have the same overlap.
    """
    room = max_length_tokens - tokenizer.num_special_tokens_to_add(pair=True)
    most = min(_QUESTION_TOKENS, room - 1)
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
    if number := sum(cut[example.question][0] != example.question for example in examples):
        _log.info("%s: cut %d questions to %d tokens", name, number, most)
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, example in enumerate(examples):
        by_length[cut[example.question][1]].append(number)
    windows: list[tuple[list[Encoding], int]] = [([], 0)] * len(examples)
    for length, numbers in by_length.items():
        step = min(stride, room - length)
        encoded = tokenized(
            tokenizer,
            [cut[examples[number].question][0] for number in numbers],
            [examples[number].context for number in numbers],
            truncation="only_second",
            max_length=max_length_tokens,
            stride=room - length - step,
            return_overflowing_tokens=True,
        )
        for number in numbers:
            windows[number] = ([], step)
        of_rows = encoded["overflow_to_sample_mapping"]
        for sample, encoding in zip(of_rows, encoded.encodings or [], strict=True):
            windows[numbers[sample]][0].append(encoding)
    return windows


def without_spaces(text: str, offsets: Iterable[tuple[int, int]]) -> Ints:
    """Return the offsets ``[tokens, 2]`` without the spaces at both ends of a token, which
    byte-level and Unigram tokenizers include or not, depending on the version.
    """
    shown = []
    for begin, end in offsets:
        part = text[begin:end]
        if letters := part.strip():
            begin += len(part) - len(part.lstrip())
            end = begin + len(letters)
        shown.append((begin, end))
    return np.array(shown, np.int32).reshape(-1, 2)
