"""Texts of rows in a teacher's own tokens, and its answers transferred to the student's tokens."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from road_ray.data.features.examples_and_features import Bytes, Ints, Longs, TagExample
from road_ray.data.features.span_windows import without_spaces
from road_ray.data.features.text_rows import packed, tokenized
from road_ray.data.features.word_tags import encode_tags
from road_ray.data.model_files.locate_model import locate_model
from road_ray.data.model_files.remote_code import read_config
from road_ray.data.task_and_dataset import Choose, Span, Tag, Task
from road_ray.distillation.ensemble.cross_tokenizer.span_transfer import can_express, transfer_spans
from road_ray.distillation.ensemble.protocol import PAD_LOGIT
from road_ray.distillation.teacher_directory import teacher_tokenizer
from road_ray.errors import DataError
from road_ray.models.architectures import longest_row_of

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

    def __init__(self, directory: str | Path, task: Task, longest_row_tokens: int) -> None:
        self.directory, self.task = directory, task
        self.tokenizer: Any = teacher_tokenizer(directory)
        self.longest = min(longest_row_tokens, _MOST_TOKENS)
        self._read = lru_cache(_CACHED_ROWS)(self._rows_of)

    @classmethod
    def of(cls, directory: str | Path, task: Task) -> TextReader:
        """Return the reader of a teacher without loading its weights."""
        directory = locate_model(directory)
        return cls(directory, task, longest_row_of(read_config(directory)))

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

    def lengths(self, rows: Sequence[Sequence[TokenRow]]) -> Longs:
        """Return the number of tokens of each example."""
        return np.array([sum(len(row.tokens) for row in example) for example in rows], np.int64)

    def carried(
        self, rows: Sequence[Sequence[TokenRow]], answers: Tensor, batch: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, float]]:
        """Return answers in own tokens for the student's tokens, and figures of these rows.
        ``[B, 2, T] -> [B, 2, L]``, ``[B, T, C] -> [B, L, C]``; others stay as they are.

        The figures are sums: ``cut``, rows that were too long for the teacher, and for spans
        ``outside``, the part of the start and end mass that no token of the student took, and
        ``inexpressible``, labelled answers that this teacher's tokens cannot express for the
        student, so that it counts as wrong there.
        """
        figures = {"cut": float(sum(row.is_cut for example in rows for row in example))}
        match self.task.kind:
            case Span():
                offsets, mask = self.needed(batch, "offsets"), batch.get("attention_mask")
                mask = torch.ones_like(batch["input_ids"]) if mask is None else mask
                answers, figures["outside"] = _spans(rows, answers, offsets, mask)
                figures["inexpressible"] = _num_inexpressible(rows, offsets, mask, batch)
            case Tag():
                answers = _tags(rows, answers, self.needed(batch, "words"))
        return answers, figures

    def _rows_of(self, texts: Texts) -> list[TokenRow]:
        """Return the rows of tokens of one example."""
        match self.task.kind:
            case Choose():
                return [self._joined((texts[0], choice)) for choice in texts[1:]]
            case Tag():
                return self._tagged(texts)
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
        rows = packed(encoded.encodings or [], self.tokenizer, num_texts=len(texts))
        (encoding,) = encoded.encodings or []
        offsets = None
        if of_spans:
            second = np.array([text == 1 for text in encoding.sequence_ids], np.bool_)
            characters = np.array(encoded["offset_mapping"][0], np.int32).reshape(-1, 2)
            offsets = np.full((len(rows["tokens"]), 2), -1, np.int32)
            offsets[: len(second)][second] = without_spaces(texts[1], characters[second])
        return TokenRow(
            rows["tokens"], rows["segments"], offsets, is_cut=bool(encoding.overflowing)
        )

    def _tagged(self, words: Texts) -> list[TokenRow]:
        """Return the rows of a sentence; one that is too long has several."""
        example = TagExample("", words, None, "")
        rows = encode_tags(
            [example], "teacher", self.task, self.tokenizer, max_length_tokens=self.longest
        )
        made = []
        for begin, end in itertools.pairwise(rows.bounds.tolist()):
            segments = None if rows.segments is None else rows.segments[begin:end]
            words_at = None if rows.words is None else rows.words[begin:end]
            made.append(TokenRow(rows.tokens[begin:end], segments, words=words_at))
        return made


def _spans(
    rows: Sequence[Sequence[TokenRow]], answers: Tensor, offsets: Tensor, mask: Tensor
) -> tuple[Tensor, float]:
    carried, outside = [], 0.0
    lengths = mask.sum(-1).tolist()
    for (row,), answer, student_offsets, length in zip(
        rows, answers.cpu().numpy(), offsets.cpu().numpy(), lengths, strict=True
    ):
        assert row.offsets is not None
        logits, lost = transfer_spans(
            answer[:, : len(row.tokens)], row.offsets, student_offsets, int(length)
        )
        carried.append(torch.from_numpy(logits))
        outside += lost
    return torch.stack(carried).to(answers.device), outside


def _num_inexpressible(
    rows: Sequence[Sequence[TokenRow]], offsets: Tensor, mask: Tensor, batch: Mapping[str, Any]
) -> float:
    """Return the number of rows with an answer that the teacher cannot express, of a batch with
    ``start_positions`` and ``end_positions`` ``[B]``. Position 0 is "no answer".
    """
    if batch.get("start_positions") is None or batch.get("end_positions") is None:
        return 0.0
    gold = zip(batch["start_positions"].tolist(), batch["end_positions"].tolist(), strict=True)
    shown, lengths = offsets.cpu().numpy(), mask.sum(-1).tolist()
    return float(
        sum(
            not can_express((start, end), row.offsets, shown[number], int(lengths[number]))
            for number, ((row,), (start, end)) in enumerate(zip(rows, gold, strict=True))
            if start > 0 and end > 0 and row.offsets is not None
        )
    )


def _tags(rows: Sequence[Sequence[TokenRow]], answers: Tensor, words: Tensor) -> Tensor:
    """Return the logits at the first token of every word of the student's: ``[B, L, C]``."""
    carried = answers.new_full((*words.shape, answers.shape[-1]), PAD_LOGIT)
    for number, example in enumerate(rows):
        teacher_words = np.concatenate([row.words for row in example if row.words is not None])
        begins = np.flatnonzero(teacher_words >= 0)
        token_of = {int(teacher_words[token]): int(token) for token in begins}
        places = (words[number] >= 0).nonzero().squeeze(1)
        # A word that the teacher has no token for keeps equal logits, which say nothing.
        for place in places.tolist():
            token = token_of.get(int(words[number, place]))
            if token is not None:
                carried[number, place] = answers[number, token]
    return carried
