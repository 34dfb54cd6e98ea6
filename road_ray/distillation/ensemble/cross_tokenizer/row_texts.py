"""Texts of the rows of a data set, for teachers that read them with their own tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import (
    ChoiceExample,
    Example,
    Features,
    SpanExample,
    TagExample,
    TextExample,
)
from road_ray.data.load_split import Split
from road_ray.distillation.ensemble.protocol import Ensemble, WrappedEnsemble

_WIDEST = 32  # characters that complete a word at an end of a window


@dataclass(frozen=True)
class RowTexts:
    """Texts of rows, with the positions of the student's tokens in them.

    ``features`` are those of the split; of spans they have ``offsets``.
    """

    split: Split
    features: Features

    def of(self, numbers: NDArray[np.int64], width: int) -> dict[str, Any]:
        """Return ``texts`` ``[B]``, for spans ``offsets`` ``[B, 2, width]`` and for tags ``words``
        ``[B, width]``, of the rows of these numbers.
        """
        rows = self.features
        texts = np.empty(len(numbers), object)
        offsets = np.full((len(numbers), 2, width), -1, np.int32)
        words = np.full((len(numbers), width), -1, np.int32)
        for index, number in enumerate(numbers.tolist()):
            texts[index], shown = self._row(number)
            if shown is None:
                continue
            if rows.offsets is not None:
                offsets[index, :, : len(shown)] = shown.T
            else:
                words[index, : len(shown)] = shown
        inputs: dict[str, Any] = {"texts": texts}
        if rows.offsets is not None:
            inputs["offsets"] = torch.from_numpy(offsets)
        if rows.words is not None:
            inputs["words"] = torch.from_numpy(words)
        return inputs

    def _row(self, number: int) -> tuple[tuple[str, ...], NDArray[np.int32] | None]:
        """Return the texts of a row, and of its tokens the characters ``[L, 2]`` or words ``[L]``
        in them.
        """
        rows = self.features
        example = self.split.examples[int(rows.example[number])]
        part = slice(int(rows.bounds[number]), int(rows.bounds[number + 1]))
        if isinstance(example, SpanExample):
            assert rows.offsets is not None
            return _question_and_slice(example, rows.offsets[part])
        if isinstance(example, TagExample):
            assert rows.words is not None
            return _words(example, rows.words[part])
        return _plain(example), None


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


def _words(
    example: TagExample, words: NDArray[np.int32]
) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Return the words that a row has, and the number of each token's word among them."""
    here = words[words >= 0]
    if not len(here):
        return (), words
    first, last = int(here[0]), int(here[-1])  # words without tokens may be between them
    return example.words[first : last + 1], np.where(words >= 0, words - first, -1)


def _plain(example: Example) -> tuple[str, ...]:
    if isinstance(example, ChoiceExample):
        return (example.question, *example.choices)
    assert isinstance(example, TextExample)
    return example.texts


class WithTexts(WrappedEnsemble):
    """Ensemble whose batches get the texts of their ``rows``."""

    def __init__(self, ensemble: Ensemble, texts: RowTexts) -> None:
        super().__init__(ensemble)
        self._texts = texts

    def submit(self, batch: Mapping[str, Any]) -> Any:
        numbers = torch.as_tensor(batch["rows"]).cpu().numpy()
        texts = self._texts.of(numbers, batch["input_ids"].shape[-1])
        return super().submit({**batch, **texts})
