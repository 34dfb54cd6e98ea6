"""Texts for teachers with another tokenizer than the student's, and their answers carried over.

Both tokenizers read the same text, so a boundary of an answer is a character for both. The formulas
for spans are ours; ``docs/guides/models.md`` has them.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.examples import Bytes, Features, Ints, Longs, SpanExample, TagExample
from road_ray.data.load_split import Split
from road_ray.data.model_files import locate_model, read_config
from road_ray.data.task_and_dataset import Choose, Span, Tag, Task
from road_ray.data.text_rows import encode_tags, packed, tokenized, without_spaces
from road_ray.distillation.teacher_directory import teacher_tokenizer
from road_ray.errors import DataError
from road_ray.models.architectures import longest_row

TextsOf = Callable[[Longs, int], dict[str, Any]]
"""``row_texts`` of a split: a function of the numbers of rows and a width."""
PAD_LOGIT = -10000.0  # of padding positions: finite, exact in fp16, 0 after a softmax
_WIDEST = 32  # characters that complete a word at an end of a window


def row_texts(split: Split, rows: Features, numbers: Longs, width: int) -> dict[str, Any]:
    """Return ``texts`` ``[B]`` of the rows of these numbers, with the positions of the student's
    tokens in them: for spans ``offsets`` ``[B, 2, width]`` and for tags ``words`` ``[B, width]``.

    ``rows`` are the features of the split; of spans they have ``offsets``.
    """
    texts = np.empty(len(numbers), object)
    offsets = np.full((len(numbers), 2, width), -1, np.int32)
    words = np.full((len(numbers), width), -1, np.int32)
    for index, number in enumerate(numbers.tolist()):
        example = split.examples[int(rows.example[number])]
        begin, end = int(rows.bounds[number]), int(rows.bounds[number + 1])
        if isinstance(example, SpanExample) and rows.offsets is not None:
            texts[index], shown = _question_and_slice(example, rows.offsets[begin:end])
            offsets[index, :, : end - begin] = shown.T
        elif isinstance(example, TagExample) and rows.words is not None:
            shown = rows.words[begin:end]
            here = shown[shown >= 0].tolist() or [0, -1]
            # From the first word that the row has to its last; some between may lack tokens.
            texts[index] = example.words[here[0] : here[-1] + 1]
            words[index, : end - begin] = np.where(shown >= 0, shown - here[0], -1)
        else:
            texts[index] = example.texts
    inputs: dict[str, Any] = {"texts": texts}
    if rows.offsets is not None:
        inputs["offsets"] = torch.from_numpy(offsets)
    if rows.words is not None:
        inputs["words"] = torch.from_numpy(words)
    return inputs


def _question_and_slice(
    example: SpanExample, offsets: NDArray[np.int32]
) -> tuple[tuple[str, str], NDArray[np.int32]]:
    """Return the question, the part of the context that a window shows, and the offsets in it.

    The part is widened to whole words, by at most 32 characters on either side: text without spaces
    has no words.
    """
    inside = offsets[:, 0] >= 0
    if not inside.any():
        return (example.question, ""), offsets
    first, last = int(offsets[inside, 0].min()), int(offsets[inside, 1].max())
    context = example.context
    least, most = max(first - _WIDEST, 0), min(last + _WIDEST, len(context))
    while first > least and not context[first - 1].isspace():
        first -= 1
    while last < most and not context[last].isspace():
        last += 1
    shown = np.where(inside[:, None], offsets - first, -1)
    return (example.question, context[first:last]), shown


Texts = tuple[str, ...]
"""Texts of a row: one or two; question and context; words; a question with its choices."""

_MOST_TOKENS = 512  # of a row, also for models that read longer ones
_CACHED_ROWS = 1 << 16


class TokenRow(NamedTuple):
    """A row of the teacher's tokens."""

    tokens: Ints
    segments: Bytes | None = None  # [T] token types, None if the tokenizer gives none
    offsets: Ints | None = None  # [T, 2] characters of the context, -1 elsewhere; spans only
    words: Ints | None = None  # [T] word that begins at a token, -1 elsewhere; tags only
    is_cut: bool = False  # the text was longer than the teacher reads


class TextReader:
    """Reader of texts with the tokenizer of a teacher. Rows are tokenized once and cached.

    An answer *in own tokens* is the model's output: ``[C]``, ``[2, T]`` for spans, and ``[T, C]``
    for tags, over the tokens of all rows of a sentence. It does not depend on the student.
    """

    def __init__(self, directory: str | Path, task: Task) -> None:
        self.directory, self.task = locate_model(directory), task
        self.tokenizer: Any = teacher_tokenizer(self.directory)
        self.longest = min(longest_row(read_config(self.directory)), _MOST_TOKENS)
        self._read = lru_cache(_CACHED_ROWS)(self._rows_of)

    def needed(self, batch: Mapping[str, Any], name: str) -> Any:
        """Return an entry of a batch. Raises ``DataError`` if it has none."""
        if batch.get(name) is None:
            raise DataError(
                f"{self.directory}: has another tokenizer than the student, and the batch has no "
                f"{name}\n  fix: add `{name}` to the batch (docs/guides/models.md), or take a "
                "teacher with the student's tokenizer"
            )
        return batch[name]

    def rows(self, texts: Sequence[Sequence[str]]) -> list[list[TokenRow]]:
        """Return the rows of tokens of each example: one, several for a long sentence, and one for
        each choice of a question.
        """
        return [self._read(tuple(row)) for row in texts]

    def carried(
        self, rows: Sequence[Sequence[TokenRow]], answers: Tensor, batch: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, float]]:
        """Return answers in own tokens for the student's tokens, and metrics of these rows.
        ``[B, 2, T] -> [B, 2, L]``, ``[B, T, C] -> [B, L, C]``; others stay as they are.

        The metrics are sums: ``cut``, rows that were too long for the teacher, and for spans
        ``outside``, the part of the start and end mass that no token of the student took.
        """
        metrics = {"cut": float(sum(row.is_cut for example in rows for row in example))}
        match self.task.kind:
            case Span():
                offsets = self.needed(batch, "offsets")
                answers, metrics["outside"] = _spans(rows, answers, offsets, batch)
            case Tag():
                answers = _tags(rows, answers, self.needed(batch, "words"))
        return answers, metrics

    def _rows_of(self, texts: Texts) -> list[TokenRow]:
        """Return the rows of tokens of one example."""
        match self.task.kind:
            case Choose():
                return [self._joined((texts[0], choice)) for choice in texts[1:]]
            case Tag():  # a sentence that is too long has several rows
                sentence, longest = TagExample("", texts, None, ""), self.longest
                rows = encode_tags([sentence], self.task, self.tokenizer, max_length_tokens=longest)
                parts = [slice(*bounds) for bounds in itertools.pairwise(rows["bounds"].tolist())]
                fields: Any = (rows["tokens"], rows.get("segments"), None, rows["words"])
                cut = ([x if x is None else x[part] for x in fields] for part in parts)
                return list(itertools.starmap(TokenRow, cut))
        return [self._joined(texts)]

    def _joined(self, texts: Texts) -> TokenRow:
        of_spans = isinstance(self.task.kind, Span)
        encoded = tokenized(
            self.tokenizer,
            *([text] for text in texts),
            truncation=True,
            max_length=self.longest,
            return_offsets_mapping=of_spans,
        )
        (encoding,) = encoded.encodings or []
        rows = packed([encoding], self.tokenizer, num_texts=len(texts))
        offsets = None
        if of_spans:
            second = np.array([text == 1 for text in encoding.sequence_ids], np.bool_)
            characters = np.array(encoded["offset_mapping"][0], np.int32).reshape(-1, 2)
            offsets = np.full((len(rows["tokens"]), 2), -1, np.int32)
            offsets[: len(second)][second] = without_spaces(texts[1], characters[second])
        return TokenRow(
            rows["tokens"], rows.get("segments"), offsets, is_cut=bool(encoding.overflowing)
        )


def _spans(
    rows: Sequence[Sequence[TokenRow]], answers: Tensor, offsets: Tensor, batch: Mapping[str, Any]
) -> tuple[Tensor, float]:
    """Return the logits for the student's tokens, and the mass that none of them took."""
    mask = batch.get("attention_mask")
    lengths = (torch.ones_like(batch["input_ids"]) if mask is None else mask).sum(-1).tolist()
    carried, outside = [], 0.0
    for (row,), answer, shown, length in zip(
        rows, answers.cpu().numpy(), offsets.cpu().numpy(), lengths, strict=True
    ):
        assert row.offsets is not None
        given = answer[:, : len(row.tokens)]
        logits, lost = transfer_spans(given, row.offsets, shown, int(length))
        carried.append(torch.from_numpy(logits))
        outside += lost
    return torch.stack(carried).to(answers.device), outside


def _tags(rows: Sequence[Sequence[TokenRow]], answers: Tensor, words: Tensor) -> Tensor:
    """Return the logits at the first token of every word of the student's: ``[B, L, C]``."""
    carried = answers.new_full((*words.shape, answers.shape[-1]), PAD_LOGIT)
    for number, example in enumerate(rows):
        teacher_words = np.concatenate([row.words for row in example if row.words is not None])
        token_of = {word: token for token, word in enumerate(teacher_words.tolist()) if word >= 0}
        # A word that the teacher has no token for keeps equal logits, which say nothing.
        for place, word in enumerate(words[number].tolist()):
            if word in token_of:
                carried[number, place] = answers[number, token_of[word]]
    return carried


Floats = NDArray[np.float32]


def transfer_spans(
    logits: Floats, teacher_offsets: Ints, student_offsets: Ints, length: int
) -> tuple[Floats, float]:
    """Return start and end log-probabilities over the student's tokens, and the part of the
    teacher's mass that no token of the student took, 0 to 1: ``[2, T] -> [2, L]``.

    ``logits`` are those of the teacher's row without padding. ``teacher_offsets`` ``[T, 2]`` and
    ``student_offsets`` ``[2, L]`` are first and last character (exclusive) of each token in the
    shared text, -1 for other tokens; the student's row has ``length`` tokens. Position 0 is "no
    answer" for both, and the special tokens behind the text correspond to each other.

    The start of a teacher's token counts for the student's token that has its first character, its
    end for the one that has its last. A character in front of the student's window or behind it is
    not in its row, which is "no answer". A position without mass gets the smallest log-probability
    of the teacher's row, so that weighted sums of logits stay finite. Positions that cannot be an
    answer have ``PAD_LOGIT``.
    """
    context = np.flatnonzero(teacher_offsets[:, 0] >= 0)
    chosen = logits[:, [0, *context, len(teacher_offsets) - 1]].astype(np.float64)
    logs = chosen - np.logaddexp.reduce(chosen, 1, keepdims=True)
    masses = np.exp(logs)
    positions = np.flatnonzero(student_offsets[0, :length] >= 0)
    first, last = student_offsets[0, positions], student_offsets[1, positions]
    begins, ends = teacher_offsets[context, 0], teacher_offsets[context, 1]
    window = (first.min(), last.max()) if len(positions) else (0, 0)
    beyond = (
        (begins < window[0]) | (begins >= window[1]),
        (ends <= window[0]) | (ends > window[1]),
    )
    taken = np.zeros((2, student_offsets.shape[1]))
    taken[:, 0] += masses[:, 0]
    taken[:, length - 1] += masses[:, -1]
    if len(positions):
        # Several tokens of the student may stand for one character: the first of them begins it.
        start = np.minimum(np.searchsorted(last, begins, "right"), len(last) - 1)
        end = np.maximum(np.searchsorted(first, ends, "left") - 1, 0)
        for head, at, inside in (
            (0, start, (first[start] <= begins) & (begins < last[start])),
            (1, end, (first[end] < ends) & (ends <= last[end])),
        ):
            np.add.at(taken[head], positions[at[inside]], masses[head, 1:-1][inside])
    outside = 1 - taken.sum(1)
    taken[:, 0] += [masses[head, 1:-1][behind].sum() for head, behind in enumerate(beyond)]
    carried = np.full(taken.shape, PAD_LOGIT)
    answers = np.unique([0, *positions, length - 1])
    floor = np.broadcast_to(logs.min(1, keepdims=True), (2, len(answers)))
    known = taken[:, answers] > 0
    carried[:, answers] = np.log(taken[:, answers], where=known, out=floor.copy())
    return carried.astype(np.float32), float(outside.mean())
