"""Teacher that reads the text of a row with its own tokenizer and answers for the student's tokens.

It hosts models of any tokenizer in an ensemble: the student's ids mean nothing to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from road_ray.data.batch_order import padded_width
from road_ray.data.features.ragged import tokenized
from road_ray.data.features.rows import assembled, longest_first
from road_ray.data.features.special_tokens import special_tokens
from road_ray.data.features.tags import encode_tags
from road_ray.data.features.types import Ints, TagExample
from road_ray.data.schema import Choose, Span, Tag
from road_ray.distillation.ensemble.base import PAD_LOGIT, Teacher
from road_ray.distillation.ensemble.span_transfer import transfer_spans
from road_ray.distillation.teacher_identity import teacher_tokenizer
from road_ray.errors import DataError
from road_ray.models.architectures import longest_row

Texts = tuple[str, ...]
"""Texts of a row: one or two; question and context; words; a question with its choices."""

_MOST_TOKENS = 512  # of a row, also for models that read longer ones
_CACHED_ROWS = 1 << 16


class TokenRow(NamedTuple):
    """A row of the teacher's tokens."""

    tokens: Ints
    first_segment: int
    offsets: Ints | None = None  # [T, 2] characters of the context, -1 elsewhere; spans only
    words: Ints | None = None  # [T] word that begins at a token, -1 elsewhere; tags only
    is_cut: bool = False  # the text was longer than the teacher reads


class TextTeacher(Teacher):
    """Teacher with another tokenizer than the student's.

    ``logits`` needs the ``texts`` of the rows, ``[B]`` tuples; for spans ``offsets`` ``[B, 2, L]``
    and for tags ``words`` ``[B, L]`` of the student's tokens, as ``RowTexts`` makes them. Rows are
    tokenized once and cached.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.tokenizer: Any = teacher_tokenizer(self.directory)
        self._longest = min(longest_row(self._model.base_model), _MOST_TOKENS)
        self._read = lru_cache(_CACHED_ROWS)(self._rows_of)
        self._stats: dict[str, float] = {}

    @property
    def stats(self) -> Mapping[str, float]:
        """Sums over the rows of the last answer: ``cut``, rows that were too long for the teacher,
        and for spans ``outside``, the part of the start and end mass that no token of the student
        took.
        """
        return self._stats

    def logits(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **texts: Any,
    ) -> Tensor:
        """Return logits in the shapes of ``Teacher.logits``, for the student's tokens: those of
        classes as they are; of spans log-probabilities; of tags at the first token of each word.
        """
        if texts.get("texts") is None:
            raise DataError(
                f"{self.directory}: has another tokenizer than the student, and the batch has no "
                "texts\n  fix: add `texts` to the batch (docs/distillation.md), or take a teacher "
                "with the student's tokenizer"
            )
        rows = [self._read(tuple(row)) for row in texts["texts"]]
        flat = [row for some in rows for row in some]
        self._stats = {"cut": float(sum(row.is_cut for row in flat))}
        answers = self._answers(flat)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        match self.task.kind:
            case Span():
                return self._spans(flat, answers, self._needed(texts, "offsets"), mask)
            case Tag():
                return _tags(rows, answers, self._needed(texts, "words"))
        return answers

    def _needed(self, texts: Mapping[str, Any], name: str) -> Tensor:
        if texts.get(name) is None:
            raise DataError(
                f"{self.directory}: has another tokenizer than the student, and the batch has no "
                f"{name} of the student's tokens\n  fix: add them (docs/distillation.md)"
            )
        tensor: Tensor = texts[name]
        return tensor

    def _answers(self, rows: Sequence[TokenRow]) -> Tensor:
        """Return the model's logits of these rows, which are the choices of fewer questions."""
        width = padded_width(max(len(row.tokens) for row in rows))
        ids = np.full((len(rows), width), self.tokenizer.pad_token_id or 0, np.int64)
        mask, segments = np.zeros_like(ids), np.zeros_like(ids)
        for number, row in enumerate(rows):
            length = len(row.tokens)
            ids[number, :length] = row.tokens
            mask[number, :length] = 1
            segments[number, row.first_segment : length] = 1
        inputs = [torch.from_numpy(array) for array in (ids, mask, segments)]
        if isinstance(self.task.kind, Choose):
            inputs = [array.view(-1, self.task.kind.choices, width) for array in inputs]
        return super().logits(*inputs)

    def _rows_of(self, texts: Texts) -> list[TokenRow]:
        """Return the rows of tokens of one example."""
        match self.task.kind:
            case Choose():
                return [self._joined((texts[0], choice)) for choice in texts[1:]]
            case Tag():
                return self._tagged(texts)
        return [self._joined(texts)]

    def _joined(self, texts: Texts) -> TokenRow:
        special = special_tokens(self.tokenizer, len(texts))
        room = self._longest - special.count
        parts = [tokenized([text], self.tokenizer, offsets=True) for text in texts]
        lengths = np.stack([part.lengths for part in parts])
        fitted = longest_first(lengths, room)
        is_cut = bool((fitted < lengths).any())
        parts = [part.kept(some) for part, some in zip(parts, fitted, strict=True)]
        tokens, _ = assembled(parts, special)
        inner = special.between if len(texts) > 1 else special.after
        first_segment = len(special.before) + int(fitted[0, 0]) + len(inner)
        if not isinstance(self.task.kind, Span):
            return TokenRow(tokens, first_segment, is_cut=is_cut)
        offsets = np.full((len(tokens), 2), -1, np.int32)
        context = int(fitted[1, 0])
        assert parts[1].offsets is not None
        offsets[first_segment : first_segment + context] = parts[1].offsets[:context]
        return TokenRow(tokens, first_segment, offsets, is_cut=is_cut)

    def _tagged(self, words: Texts) -> list[TokenRow]:
        """Return the rows of a sentence; one that is too long has several."""
        example = TagExample("", words, None, "")
        rows = encode_tags(
            [example], "teacher", self.task, self.tokenizer, max_length_tokens=self._longest
        )
        assert rows.words is not None
        pairs = zip(rows.bounds[:-1], rows.bounds[1:], strict=True)
        places = [slice(int(begin), int(end)) for begin, end in pairs]
        return [
            TokenRow(rows.tokens[one], one.stop - one.start, words=rows.words[one])
            for one in places
        ]

    def _spans(
        self, rows: Sequence[TokenRow], answers: Tensor, offsets: Tensor, mask: Tensor
    ) -> Tensor:
        carried, outside = [], 0.0
        lengths = mask.sum(-1).tolist()
        for row, answer, ours, length in zip(
            rows, answers.cpu().numpy(), offsets.cpu().numpy(), lengths, strict=True
        ):
            assert row.offsets is not None
            logits, lost = transfer_spans(
                answer[:, : len(row.tokens)], row.offsets, ours, int(length)
            )
            carried.append(torch.from_numpy(logits))
            outside += lost
        self._stats["outside"] = outside
        return torch.stack(carried).to(answers.device)


def _tags(rows: Sequence[Sequence[TokenRow]], answers: Tensor, words: Tensor) -> Tensor:
    """Return the logits at the first token of every word of the student's: ``[B, L, C]``."""
    carried = answers.new_full((*words.shape, answers.shape[-1]), PAD_LOGIT)
    number = 0
    for sentence, some in enumerate(rows):
        place: dict[int, tuple[int, int]] = {}
        for row in some:
            assert row.words is not None
            at = np.flatnonzero(row.words >= 0)
            place |= {int(row.words[token]): (number, int(token)) for token in at}
            number += 1
        ours = (words[sentence] >= 0).nonzero().squeeze(1).tolist()
        for token in ours:
            row_number, theirs = place[int(words[sentence, token])]
            carried[sentence, token] = answers[row_number, theirs]
    return carried
