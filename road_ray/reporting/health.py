"""Health checks of a run, each with a verdict and a reason."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable

from road_ray.reporting.pages.page import Gauge, State
from road_ray.reporting.records.run_record import RunRecord


def gauges(run: RunRecord) -> list[Gauge]:
    """Return every health check that applies to this run."""
    return [gauge for read in _READINGS for gauge in read(run)]


def _finite(run: RunRecord) -> Iterable[Gauge]:
    names = [*run.names("train/")]
    if not names:
        return
    broken = sum(1 for row in run.rows if any(row.get(n, 0) is None for n in names))
    share = 1 - broken / len(run.rows)
    about = "every recorded loss and gradient is finite"
    if broken:
        about = f"{broken} of {len(run.rows)} rows have a loss or gradient that is not finite"
    yield Gauge("finite", f"{share:.0%}", share, "good" if not broken else "bad", about)


def _learning(run: RunRecord) -> Iterable[Gauge]:
    """Compare the last quarter of each training loss with the first, for at most three losses."""
    for name in loss_names(run)[:3]:
        values = [value for _, value in run.series(name)]
        if len(values) < 4:
            continue
        quarter = max(len(values) // 4, 1)
        before, after = sum(values[:quarter]) / quarter, sum(values[-quarter:]) / quarter
        fall = (before - after) / abs(before) if before else 0.0
        state: State = "good" if fall > 0.02 else "fair" if fall > -0.05 else "bad"
        about = f"mean of the first quarter {before:.3g}, of the last {after:.3g}"
        label = f"{name.removeprefix('train/')} loss"
        yield Gauge(label, f"{-fall:+.0%}", min(max(fall, 0.0), 1.0), state, about)


def _gradients(run: RunRecord) -> Iterable[Gauge]:
    norms = [value for _, value in run.series("train/grad_norm")]
    limit = run.settings.get("optimizer.max_grad_norm")
    if norms and isinstance(limit, int | float) and limit > 0:
        share = sum(norm > limit for norm in norms) / len(norms)
        state: State = "good" if share < 0.9 else "fair"
        about = f"share of rows above optimizer.max_grad_norm = {limit:g}"
        about += "" if share < 0.9 else ": the limit determines the step size, not the gradient"
        yield Gauge("clipped", f"{share:.0%}", share, state, about)


def _detection(run: RunRecord) -> Iterable[Gauge]:
    area = run.last("train/detection_auc")
    if area is not None:
        state: State = "good" if area > 0.7 else "fair" if area > 0.55 else "bad"
        about = "area under the ROC curve of the discriminator; 0.5 is guessing"
        yield Gauge("detection", f"{area:.2f}", max(2 * area - 1, 0.0), state, about)
    share = run.last("train/replaced_fraction")
    if share is not None:
        state = "good" if share > 0.04 else "fair"
        about = "tokens that the generator replaced; with few of them there is little to detect"
        yield Gauge("replaced", f"{share:.1%}", min(share / 0.15, 1.0), state, about)


def _teachers(run: RunRecord) -> Iterable[Gauge]:
    counts = right_counts(run)
    if len(counts) < 2 or not sum(counts):
        return
    total = sum(counts)
    wrong, split = counts[0] / total, sum(counts[1:-1]) / total
    state: State = "good" if split > 0.02 else "fair"
    about = "rows on which some teachers are right and some wrong; only on these does a "
    about += "weighting rule differ from the mean"
    yield Gauge("teachers divided", f"{split:.1%}", split, state, about)
    state = "good" if wrong < 0.3 else "fair" if wrong < 0.6 else "bad"
    yield Gauge("all teachers wrong", f"{wrong:.0%}", wrong, state, "on rows of the training set")


def _silence(run: RunRecord) -> Iterable[Gauge]:
    """Compare how often a span model abstains with how often the question has no answer."""
    for name, value in run.metrics.items():
        if not name.endswith("/no_answer_predicted"):
            continue
        start = name.removesuffix("no_answer_predicted")
        total = run.metrics.get(f"{start}total") or 0
        if not total or value is None:
            continue
        silent, true = value / total, (run.metrics.get(f"{start}no_answer_total") or 0) / total
        state: State = "good" if abs(silent - true) < 0.2 else "fair"
        state = "bad" if silent > 0.95 and true < 0.9 else state
        about = f"questions left unanswered; {true:.0%} have no answer"
        about += ". The model has learnt to abstain, not to answer" if state == "bad" else ""
        yield Gauge(f"abstains on {start.split('/')[1]}", f"{silent:.0%}", silent, state, about)


def _labels(run: RunRecord) -> Iterable[Gauge]:
    """Yield a warning for a classifier that predicts one label for every row."""
    for name, value in run.metrics.items():
        if name.endswith("/predicted_labels") and value == 1:
            start = name.removesuffix("predicted_labels")
            about = "the model predicts one label for every row"
            if (majority := run.metrics.get(f"{start}majority_accuracy")) is not None:
                about += f"; accuracy of the most frequent label: {majority:.2f}"
            yield Gauge(f"labels on {name.split('/')[1]}", "1", 1.0, "bad", about)


def _truncated(run: RunRecord) -> Iterable[Gauge]:
    for name, count in run.metrics.items():
        if name.endswith("/truncated_rows") and count:
            about = "evaluated rows that are longer than data.max_length_tokens and lost their end"
            yield Gauge(f"truncated on {name.split('/')[1]}", f"{count:,.0f}", 1.0, "fair", about)


def _leaks(run: RunRecord) -> Iterable[Gauge]:
    for name, value in run.metrics.items():
        if name.endswith("/overlap_with_train") and value:
            about = "evaluated rows that are also training rows: these figures are too high"
            yield Gauge(f"overlap on {name.split('/')[1]}", f"{value:.0f}", 1.0, "bad", about)


_READINGS: tuple[Callable[[RunRecord], Iterable[Gauge]], ...] = (
    _finite,
    _learning,
    _gradients,
    _detection,
    _teachers,
    _silence,
    _labels,
    _truncated,
    _leaks,
)
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
