"""Health checks of a run, each with a verdict and a reason."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from road_ray.reporting.pages.page import State
from road_ray.reporting.records.run_record import RunRecord
from road_ray.reporting.text_tables import notes


class Check(NamedTuple):
    """One reading with a verdict."""

    name: str
    reading: str
    state: State
    about: str


def checks(run: RunRecord) -> list[Check]:
    """Return every health check that applies to this run."""
    return [*_losses(run), *_gradients(run), *_detection(run), *_teachers(run), *_metrics(run)]


def _losses(run: RunRecord) -> Iterator[Check]:
    """Check that all values are finite, and compare the last quarter of each training loss with the
    first, for at most three losses.
    """
    if names := run.names("train/"):
        broken = sum(1 for row in run.rows if any(row.get(n, 0) is None for n in names))
        about = f"{broken} of {len(run.rows)} rows have a loss or gradient that is not finite"
        reading = f"{1 - broken / len(run.rows):.0%}"
        yield Check("finite", reading, "bad" if broken else "good", about)
    for name in loss_names(run)[:3]:
        values = [value for _, value in run.series(name)]
        if len(values) < 4:
            continue
        quarter = len(values) // 4
        before, after = sum(values[:quarter]) / quarter, sum(values[-quarter:]) / quarter
        fall = (before - after) / abs(before) if before else 0.0
        state: State = "good" if fall > 0.02 else "fair" if fall > -0.05 else "bad"
        about = f"mean of the first quarter {before:.3g}, of the last {after:.3g}"
        yield Check(f"{name.removeprefix('train/')} loss", f"{-fall:+.0%}", state, about)


def _gradients(run: RunRecord) -> Iterator[Check]:
    norms = [value for _, value in run.series("train/grad_norm")]
    limit = run.settings.get("optimizer.max_grad_norm")
    if norms and isinstance(limit, int | float) and limit > 0:
        share = sum(norm > limit for norm in norms) / len(norms)
        about = f"share of rows above optimizer.max_grad_norm = {limit:g}"
        about += "" if share < 0.9 else ": the limit determines the step size, not the gradient"
        yield Check("clipped", f"{share:.0%}", "good" if share < 0.9 else "fair", about)


def _detection(run: RunRecord) -> Iterator[Check]:
    area = run.last("train/detection_auc")
    if area is not None:
        state: State = "good" if area > 0.7 else "fair" if area > 0.55 else "bad"
        about = "area under the ROC curve of the discriminator; 0.5 is guessing"
        yield Check("detection", f"{area:.2f}", state, about)
    share = run.last("train/replaced_fraction")
    if share is not None:
        about = "tokens that the generator replaced; with few of them there is little to detect"
        yield Check("replaced", f"{share:.1%}", "good" if share > 0.04 else "fair", about)


def _teachers(run: RunRecord) -> Iterator[Check]:
    counts = right_counts(run)
    if len(counts) < 2 or not sum(counts):
        return
    wrong, split = counts[0] / sum(counts), sum(counts[1:-1]) / sum(counts)
    about = "rows on which some teachers are right and some wrong; only on these does a "
    about += "weighting rule differ from the mean"
    yield Check("teachers divided", f"{split:.1%}", "good" if split > 0.02 else "fair", about)
    state: State = "good" if wrong < 0.3 else "fair" if wrong < 0.6 else "bad"
    yield Check("all teachers wrong", f"{wrong:.0%}", state, "on rows of the training set")


def _metrics(run: RunRecord) -> Iterator[Check]:
    """Check what a model abstains on or predicts always, truncated rows, and rows that were trained
    on.
    """
    for name, value in run.metrics.items():
        start, _, last = name.rpartition("/")
        dataset = start.rpartition("/")[2]
        total = run.metrics.get(f"{start}/total") or 0
        if last == "no_answer_predicted" and total and value is not None:
            silent, true = value / total, (run.metrics.get(f"{start}/no_answer_total") or 0) / total
            state: State = "good" if abs(silent - true) < 0.2 else "fair"
            state = "bad" if silent > 0.95 and true < 0.9 else state
            about = f"questions left unanswered; {true:.0%} have no answer"
            about += ". The model has learnt to abstain, not to answer" if state == "bad" else ""
            yield Check(f"abstains on {dataset}", f"{silent:.0%}", state, about)
        if last == "overlap_with_train" and value:
            about = "evaluated rows that are also training rows: these figures are too high"
            yield Check(f"overlap on {dataset}", f"{value:.0f}", "bad", about)
    for note in notes(run.metrics):
        dataset, _, about = note.partition(": ")
        yield Check(f"predictions on {dataset}", "note", "fair", about)


# Figures of training rows that are not losses: the ``metrics`` of objectives.
_NO_LOSS = re.compile(
    r"train/(grad_norm.*|lr|kd_weight|detection_.*|.*_(accuracy|entropy|reward|fraction|soft)|"
    r".*_accuracy_replaced)"
)


def is_loss(name: str) -> bool:
    """Return True for a training loss on labels, such as ``train/squad_v2``."""
    return name.startswith("train/") and not _NO_LOSS.fullmatch(name)


def loss_names(run: RunRecord) -> list[str]:
    """Return the names of the training losses on labels."""
    return [name for name in run.names("train/") if is_loss(name)]


def right_counts(run: RunRecord) -> list[float]:
    """Return how often 0, 1, 2, ... teachers were right, summed over the run and over the data sets
    of a mixture.
    """
    counts: dict[int, float] = defaultdict(float)
    for name in run.names("teachers/"):
        if match := re.search(r"/right_(\d+)$", name):
            counts[int(match[1])] += sum(value for _, value in run.series(name))
    return [counts[number] for number in range(max(counts, default=-1) + 1)]
