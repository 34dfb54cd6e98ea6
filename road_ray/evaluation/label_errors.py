"""Label errors by confident learning: rows whose label the probabilities of models that have not
seen them contradict.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class LabelErrors(NamedTuple):
    """Judgement of the models on the label of each row, ``[N]`` each."""

    self_confidence: NDArray[np.float64]
    """Probability of the label."""
    margin: NDArray[np.float64]
    """Probability of the label less that of the most probable other one."""
    suggested: NDArray[np.int64]
    """The most probable label; of several labels a row 0 or 1 for each, ``[N, C]``."""
    suspected: NDArray[np.bool_]
    """True where the models are confident of another label."""


def find_label_errors(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> LabelErrors:
    """Compare out-of-sample ``probabilities`` ``[N, C]`` with ``labels`` ``[N]``.

    The models are confident of a class if its probability is at least the mean probability that it
    has in the rows labelled with it, and of the most probable such class if there are several. A
    row is suspected if that is not its label. Source: Northcutt, Jiang and Chuang 2021, section
    3.1 (the confident joint).
    """
    rows, classes = np.arange(len(labels)), probabilities.shape[1]
    own = probabilities[rows, labels]
    others = probabilities.copy()
    others[rows, labels] = -np.inf
    counts = np.bincount(labels, minlength=classes)
    sums = np.bincount(labels, own, classes)
    thresholds = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)
    confident = np.where(probabilities >= thresholds, probabilities, -np.inf)
    suspected = np.isfinite(confident.max(1)) & (confident.argmax(1) != labels)
    return LabelErrors(own, own - others.max(1), probabilities.argmax(1), suspected)


def find_label_set_errors(
    probabilities: NDArray[np.float64], labels: NDArray[np.int64]
) -> LabelErrors:
    """Compare out-of-sample ``probabilities`` of several labels a row with ``labels``, 0 or 1,
    ``[N, C]`` both.

    Whether a label is there is a class of its own for each label. A row has the values of its most
    doubtful label, and is suspected if one is; ``suggested`` has the suspected ones turned.
    """
    found = [
        find_label_errors(np.stack([1 - shares, shares], -1), there)
        for shares, there in zip(probabilities.T, labels.T, strict=True)
    ]
    turned: NDArray[np.bool_] = np.stack([one.suspected for one in found], -1)
    return LabelErrors(
        np.min([one.self_confidence for one in found], 0),
        np.min([one.margin for one in found], 0),
        np.where(turned, 1 - labels, labels),
        np.array(turned.any(-1)),
    )
