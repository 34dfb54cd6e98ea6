"""Published results on the same data sets, shown beside the figures of a run.

Percentages on dev sets, single models. Sources: Clark et al. 2020 (ELECTRA), tables 1 and 2 and the
medians of its repository; the ROaD-ELECTRA posts, part 1 (tables of sections 4 and 5) and part 2.
They come from large models and full data; a small run cannot reach them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ELECTRA, ROAD = "Clark et al. 2020", "ROaD-ELECTRA"


@dataclass(frozen=True)
class Published:
    """One published figure."""

    dataset: str
    metric: str
    model: str
    value: float
    source: str


def _rows(source: str, model: str, **figures: float) -> Iterable[Published]:
    """Yield figures by keyword: ``squad_v2__f1=91.5`` is F1 on ``squad_v2``."""
    for name, value in figures.items():
        dataset, metric = name.split("__")
        yield Published(dataset, metric, model, value, source)


_GLUE = {
    "cola": "matthews",
    "sst2": "accuracy",
    "mrpc": "accuracy",
    "stsb": "spearman",
    "qqp": "accuracy",
    "mnli": "accuracy",
    "qnli": "accuracy",
    "rte": "accuracy",
}


def _glue(model: str, *values: float) -> Iterable[Published]:
    for (dataset, metric), value in zip(_GLUE.items(), values, strict=True):
        yield Published(dataset, metric, model, value, ELECTRA)


PUBLISHED: tuple[Published, ...] = (
    *_glue("ELECTRA-Small", 57.0, 91.2, 88.0, 87.5, 89.0, 81.3, 88.4, 66.7),
    *_glue("ELECTRA-Large", 69.1, 96.9, 90.8, 92.6, 92.4, 90.9, 95.0, 88.0),
    *_glue("BERT-Large", 60.6, 93.2, 88.0, 90.0, 91.3, 86.6, 92.3, 70.4),
    *_rows(ELECTRA, "ELECTRA-Small", squad_v2__exact=70.1, squad_v1__exact=75.8),
    *_rows(ELECTRA, "ELECTRA-Base", squad_v2__f1=83.3, squad_v2__exact=80.5),
    *_rows(ELECTRA, "ELECTRA-Base", squad_v1__f1=90.8, squad_v1__exact=84.5),
    *_rows(ELECTRA, "ELECTRA-Large", squad_v2__f1=90.6, squad_v2__exact=88.0),
    *_rows(ELECTRA, "ELECTRA-Large", squad_v1__f1=94.9, squad_v1__exact=89.7),
    *_rows(ROAD, "ELECTRA-Large, no KD", squad_v2__f1=90.87, squad_v2__exact=88.34),
    *_rows(ROAD, "mean of 3 teachers", squad_v2__f1=91.38, squad_v2__exact=88.84),
    *_rows(ROAD, "Weighted KD, W = 0.75", squad_v2__f1=91.5, squad_v2__exact=89.0),
    *_rows(ROAD, "annealing KD", squad_v2__f1=91.0, squad_v2__exact=88.1),
    *_rows(ROAD, "ensemble of 3", squad_v2__f1=91.41, squad_v2__exact=88.92),
    *_rows(ROAD, "ROaD-Base v1.1", squad_v2__f1=87.6, squad_v2__exact=85.1),
    *_rows(ROAD, "ROaD-Base v1.1", mnli__accuracy=89.0, qqp__accuracy=91.7, amazon__accuracy=73.3),
    *_rows(ROAD, "ROaD-Large, multi-task", mnli__accuracy=91.2, qqp__accuracy=92.4),
    *_rows(ROAD, "ELECTRA-Large", newsqa__f1=58.0, newsqa__exact=42.7),
    *_rows(ROAD, "ROaD-Large", newsqa__f1=60.4, newsqa__exact=45.4),
)
# Papers report F1 of SQuAD 2.0 with a threshold tuned on the dev set.
_SAME = {"best_f1": "f1", "best_exact": "exact", "at_threshold_f1": "f1"}
_SAME |= {"at_threshold_exact": "exact"}


def published(dataset: str, metric: str) -> list[Published]:
    """Return the published figures of a data set and a metric."""
    name = _SAME.get(metric, metric)
    return [row for row in PUBLISHED if row.dataset == dataset and row.metric == name]


def published_line(dataset: str, metric: str, most: int = 3) -> str:
    """Return the highest published figures in one line: ``91.5 Weighted KD, W = 0.75 · ...``."""
    best = sorted(published(dataset, metric), key=lambda row: -row.value)[:most]
    return " · ".join(f"{_printed(row.value)} {row.model}" for row in best)


def _printed(value: float) -> str:
    return f"{value:.1f}" if round(value, 1) == value else f"{value:.2f}"
