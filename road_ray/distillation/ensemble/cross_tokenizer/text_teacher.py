"""Teacher that reads the text of a row with its own tokenizer and answers for the student's tokens.

It hosts models of any tokenizer in an ensemble: the student's ids mean nothing to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from road_ray.data.shuffle_into_batches import padded_width
from road_ray.data.task_and_dataset import Choose, Tag
from road_ray.data.tokenizer import pad_id_of
from road_ray.distillation.ensemble.cross_tokenizer.text_reader import TextReader, TokenRow
from road_ray.distillation.ensemble.protocol import OWN_TOKENS, PAD_LOGIT
from road_ray.distillation.ensemble.teacher import Teacher
from road_ray.models.architectures import is_decoder, longest_row


class TextTeacher(Teacher):
    """Teacher with another tokenizer than the student's.

    ``logits`` needs the ``texts`` of the rows, ``[B]`` tuples; for spans ``offsets`` ``[B, 2, L]``
    and for tags ``words`` ``[B, L]`` of the student's tokens, as ``RowTexts`` makes them.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.reader = TextReader(self.directory, self.task, longest_row(self._model.base_model))
        config = self._model.config
        self._is_decoder = is_decoder(config)
        self._pad_id: int | None = (
            config.pad_token_id if self._is_decoder else pad_id_of(self.reader.tokenizer)
        )
        self._stats: Mapping[str, float] = {}

    @property
    def stats(self) -> Mapping[str, float]:
        """Figures of the last transferred answer, as ``TextReader.carried`` returns them."""
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
        With ``own_tokens`` in the batch, return them for the teacher's own tokens.
        """
        rows = self.reader.rows(self.reader.needed(texts, "texts"))
        answers = self._answers(rows)
        if OWN_TOKENS in texts:
            return answers
        batch = {"input_ids": input_ids, "attention_mask": attention_mask, **texts}
        carried, self._stats = self.reader.carried(rows, answers, batch)
        return carried

    def _answers(self, examples: Sequence[Sequence[TokenRow]]) -> Tensor:
        """Return the model's logits in own tokens. ``-> [B, C]``, ``[B, 2, T]``, ``[B, T, C]``."""
        rows = [row for example in examples for row in example]
        longest = max(len(row.tokens) for row in rows)
        width = padded_width(longest, max(self.reader.longest, longest))
        ids = np.full((len(rows), width), self._padding(rows), np.int64)
        mask, segments = np.zeros_like(ids), np.zeros_like(ids)
        for number, row in enumerate(rows):
            length = len(row.tokens)
            ids[number, :length] = row.tokens
            mask[number, :length] = 1
            if row.segments is not None:
                segments[number, :length] = row.segments
        inputs = [torch.from_numpy(array) for array in (ids, mask, segments)]
        if isinstance(self.task.kind, Choose):
            inputs = [array.view(-1, self.task.kind.choices, width) for array in inputs]
        answers = super().logits(*inputs)
        return _sentences(examples, answers) if isinstance(self.task.kind, Tag) else answers

    def _padding(self, rows: Sequence[TokenRow]) -> int:
        """Return the id that fills these rows. A decoder finds the last token of a row by the id of
        padding alone; one without padding gets an id that no row has, which gives the last token.
        """
        if self._pad_id is not None:
            return self._pad_id
        used = {int(token) for row in rows for token in row.tokens}
        unused = next(number for number in range(len(used) + 1) if number not in used)
        self._model.config.pad_token_id = unused
        return unused


def _sentences(examples: Sequence[Sequence[TokenRow]], answers: Tensor) -> Tensor:
    """Join the rows of each sentence. ``[rows, T, C] -> [B, T of the longest sentence, C]``."""
    parts = iter(answers)
    sentences = [torch.cat([next(parts)[: len(row.tokens)] for row in rows]) for rows in examples]
    padded: Tensor = torch.nn.utils.rnn.pad_sequence(
        sentences, batch_first=True, padding_value=PAD_LOGIT
    )
    return padded
