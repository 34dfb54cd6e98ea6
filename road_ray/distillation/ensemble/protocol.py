"""Protocol of ensembles, and what they share: wrapping, stacking of the answers.

``distributed/teachers/client.py`` implements it with teachers in Ray actors. The student's loop,
loss and head are the same for all ensembles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from road_ray.errors import DataError

PAD_LOGIT = -10000.0  # of padding positions: finite, exact in fp16, 0 after a softmax
# In a batch ``[B]``: teachers that read texts answer for their own tokens, not for the student's.
OWN_TOKENS = "own_tokens"


class Ensemble(ABC):
    """Base class of ensembles: M teachers that answer batches with logits, in a fixed order. Either
    all of them answer, or none.

    The default methods suit an ensemble without resources. As a context manager it closes itself.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of teachers, M."""

    @property
    def stats(self) -> Mapping[str, float]:
        """Figures of the last answer, for the journal."""
        return {}

    @abstractmethod
    def submit(self, batch: Mapping[str, object]) -> Any:
        """Send a batch to all teachers and return a handle at once."""

    @abstractmethod
    def gather(self, handle: Any) -> Tensor:
        """Return the logits of a submitted batch. ``-> [M, B, ..., C]``, fp32."""

    def close(self) -> None:  # noqa: B027  # only an ensemble with resources does
        """Release what the ensemble owns: actors, files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WrappedEnsemble(Ensemble):
    """Ensemble that passes every call on to another one; subclasses override what differs."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.inner = ensemble

    @property
    def size(self) -> int:
        return self.inner.size

    @property
    def stats(self) -> Mapping[str, float]:
        return self.inner.stats

    def submit(self, batch: Mapping[str, object]) -> Any:
        return self.inner.submit(batch)

    def gather(self, handle: Any) -> Tensor:
        return self.inner.gather(handle)

    def close(self) -> None:
        self.inner.close()


def numbered(figures: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Return figures by teacher as one mapping with names such as ``teachers/outside_0``."""
    return {
        f"teachers/{name}_{number}": value
        for number, teacher_figures in figures.items()
        for name, value in teacher_figures.items()
    }


def stacked(answers: Sequence[Tensor], *, own_tokens: bool = False) -> Tensor:
    """Stack ``M x [B, ..., C] -> [M, B, ..., C]``. Raises ``DataError`` if shapes differ.

    Answers in the teachers' own tokens differ in length; they are padded to the longest.
    """
    if own_tokens:
        shape = [max(sizes) for sizes in zip(*(answer.shape for answer in answers), strict=True)]
        padded = [answer.new_full(shape, PAD_LOGIT) for answer in answers]
        for target, answer in zip(padded, answers, strict=True):
            target[tuple(map(slice, answer.shape))] = answer
        answers = padded
    for index, answer in enumerate(answers):
        if answer.shape != answers[0].shape:
            raise DataError(
                f"teacher {index} answers in shape {list(answer.shape)}, "
                f"teacher 0 in {list(answers[0].shape)}"
            )
    return torch.stack(list(answers))
