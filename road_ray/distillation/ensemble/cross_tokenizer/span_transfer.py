"""Carry a teacher's start and end distributions from its tokens to the student's, by characters.

Both tokenizers read the same text, so a boundary of an answer is a character for both. The formulas
are ours; ``docs/guides/models.md`` has them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Ints, Longs
from road_ray.distillation.ensemble.protocol import PAD_LOGIT

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
        for head, (at, inside) in enumerate(_matches(teacher_offsets[context], first, last)):
            np.add.at(taken[head], positions[at[inside]], masses[head, 1:-1][inside])
    outside = 1 - taken.sum(1)
    taken[:, 0] += [masses[head, 1:-1][behind].sum() for head, behind in enumerate(beyond)]
    carried = np.full(taken.shape, PAD_LOGIT)
    answers = np.unique([0, *positions, length - 1])
    floor = np.broadcast_to(logs.min(1, keepdims=True), (2, len(answers)))
    known = taken[:, answers] > 0
    carried[:, answers] = np.log(taken[:, answers], where=known, out=floor.copy())
    return carried.astype(np.float32), float(outside.mean())


def can_express(
    gold: tuple[int, int], teacher_offsets: Ints, student_offsets: Ints, length: int
) -> bool:
    """Return True if a teacher that is sure of the student's ``gold`` tokens (start, end) is
    carried to them. It is not where one token of the teacher covers more than the answer: the
    student's best answer is then another one, and the teacher seems to err.
    """
    context = teacher_offsets[teacher_offsets[:, 0] >= 0]
    positions = np.flatnonzero(student_offsets[0, :length] >= 0)
    matches = _matches(context, student_offsets[0, positions], student_offsets[1, positions])
    characters = (student_offsets[0, gold[0]], student_offsets[1, gold[1]] - 1)
    for (at, inside), position, character in zip(matches, gold, characters, strict=True):
        sure = (context[:, 0] <= character) & (character < context[:, 1])
        if not (positions[at] == position)[sure & inside].any():
            return False
    return True


def _matches(
    context: Ints, first: Ints, last: Ints
) -> tuple[tuple[Longs, NDArray[np.bool_]], tuple[Longs, NDArray[np.bool_]]]:
    """Return, for starts and for ends, the number of the student's token that each teacher's token
    ``[T, 2]`` counts for, and whether there is one. The student's tokens have characters ``first``
    to ``last`` ``[S]``, of which there is at least one.
    """
    begins, ends = context[:, 0], context[:, 1]
    # Several tokens of the student may stand for one character: the first of them begins it.
    start = np.minimum(np.searchsorted(last, begins, "right"), len(last) - 1)
    end = np.maximum(np.searchsorted(first, ends, "left") - 1, 0)
    return (
        (start, (first[start] <= begins) & (begins < last[start])),
        (end, (first[end] < ends) & (ends <= last[end])),
    )
