"""Carry a teacher's start and end distributions from its tokens to the student's, by characters.

Both tokenizers read the same text, so a boundary of an answer is a character for both. The formulas
are ours; ``docs/guides/models.md`` has them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Ints
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
    end for the one that has its last. A position without mass gets the smallest log-probability of
    the teacher's row, so that weighted sums of logits stay finite. Positions that cannot be an
    answer have ``PAD_LOGIT``.
    """
    context = np.flatnonzero(teacher_offsets[:, 0] >= 0)
    chosen = logits[:, [0, *context, len(teacher_offsets) - 1]].astype(np.float64)
    logs = chosen - np.logaddexp.reduce(chosen, 1, keepdims=True)
    masses = np.exp(logs)
    positions = np.flatnonzero(student_offsets[0, :length] >= 0)
    first, last = student_offsets[0, positions], student_offsets[1, positions]
    taken = np.zeros((2, student_offsets.shape[1]))
    taken[:, 0] += masses[:, 0]
    taken[:, length - 1] += masses[:, -1]
    if len(positions):
        begins, ends = teacher_offsets[context, 0], teacher_offsets[context, 1]
        # Several tokens of the student may stand for one character: the first of them begins it.
        at = np.minimum(np.searchsorted(last, begins, "right"), len(positions) - 1)
        inside = (first[at] <= begins) & (begins < last[at])
        np.add.at(taken[0], positions[at[inside]], masses[0, 1:-1][inside])
        at = np.maximum(np.searchsorted(first, ends, "left") - 1, 0)
        inside = (first[at] < ends) & (ends <= last[at])
        np.add.at(taken[1], positions[at[inside]], masses[1, 1:-1][inside])
    carried = np.full(taken.shape, PAD_LOGIT)
    answers = np.unique([0, *positions, length - 1])
    floor = np.broadcast_to(logs.min(1, keepdims=True), (2, len(answers)))
    known = taken[:, answers] > 0
    carried[:, answers] = np.log(taken[:, answers], where=known, out=floor.copy())
    return carried.astype(np.float32), float(1 - taken.sum() / 2)
