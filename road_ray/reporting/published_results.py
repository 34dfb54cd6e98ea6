"""Published results on the same data sets, shown beside the figures of a run: ``published.csv``.

Percentages on dev sets, single models. Sources: Clark et al. 2020 (ELECTRA), tables 1 and 2 and the
medians of its repository; the ROaD-ELECTRA posts, part 1 (tables of sections 4 and 5) and part 2.
They come from large models and full data; a small run cannot reach them.
"""

from __future__ import annotations

import csv
from functools import cache
from typing import NamedTuple

from road_ray.reporting.pages.page import asset

# Papers report F1 of SQuAD 2.0 with a threshold tuned on the dev set.
_SAME = {"best_f1": "f1", "best_exact": "exact", "at_threshold_f1": "f1"}
_SAME |= {"at_threshold_exact": "exact"}


class Published(NamedTuple):
    """One published figure."""

    dataset: str
    metric: str
    model: str
    value: float
    source: str


@cache
def published_results() -> tuple[Published, ...]:
    """Return all published figures."""
    rows = csv.DictReader(asset("published.csv").splitlines())
    return tuple(
        Published(row["dataset"], row["metric"], row["model"], float(row["value"]), row["source"])
        for row in rows
    )


def published(dataset: str, metric: str) -> list[Published]:
    """Return the published figures of a data set and a metric."""
    key = dataset, _SAME.get(metric, metric)
    return [row for row in published_results() if (row.dataset, row.metric) == key]


def published_line(dataset: str, metric: str, most: int = 3) -> str:
    """Return the highest published figures in one line: ``91.5 Weighted KD, W = 0.75 · ...``."""
    best = sorted(published(dataset, metric), key=lambda row: -row.value)[:most]
    return " · ".join(f"{row.value} {row.model}" for row in best)
