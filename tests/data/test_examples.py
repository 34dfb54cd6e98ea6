"""Rows as they are stored have a fingerprint that notices every change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from road_ray.data.examples import Features

ROWS = Features(
    dataset="sst2",
    task="sentiment",
    tokens=np.array([2, 5, 3, 2, 6, 7, 3], dtype=np.int32),
    bounds=np.array([0, 3, 7]),
    first_segment=np.array([3, 4], dtype=np.int32),
    gold={"labels": np.array([0, 1])},
    example=np.array([0, 1], dtype=np.int32),
)


def test_the_fingerprint_sees_tokens_bounds_segments_and_gold():
    changed = [
        replace(ROWS, tokens=ROWS.tokens + 1),
        replace(ROWS, bounds=np.array([0, 4, 7])),
        replace(ROWS, first_segment=np.array([2, 4], dtype=np.int32)),
        replace(ROWS, gold={"labels": np.array([1, 1])}),
    ]
    prints = {ROWS.fingerprint(), *(item.fingerprint() for item in changed)}
    assert len(prints) == 5
    assert replace(ROWS, dataset="other").fingerprint() == ROWS.fingerprint()
