"""Health checks of a run, each with a verdict and a reason; advice on the bottleneck of a step."""

import re
from collections import defaultdict
from collections.abc import Iterator

from road_ray.reporting.pages.page import Cell, Row, State
from road_ray.reporting.records.run_record import RunRecord
from road_ray.reporting.text_tables import notes

# Metrics of training rows that are not losses: the ``metrics`` of objectives.
NO_LOSS = re.compile(
    r"train/(grad_norm.*|lr|kd_weight|detection_.*|.*_(accuracy|entropy|reward|fraction|soft)|"
    r".*_accuracy_replaced)"
)
DATA, TEACHERS, MODEL = "data", "waiting for teachers", "model"
_MUCH = 0.10  # least share of a step for advice on a part of it
_GUESSING = ": start from a trained generator (generator.init), lower optimizer.peak_lr, lengthen "
_GUESSING += "the warm-up or raise objective.choose_fraction"
_SAME = ": the same few tokens: lower optimizer.peak_lr or objective.discriminator_weight, raise "
_SAME += "objective.options.temperature"


_Check = tuple[str, str, State, str]  # name, reading, verdict, reason


def checks(run: RunRecord) -> list[Row]:
    """Return every health check that applies to this run: name, reading with a verdict, reason."""
    found = [*_of_training(run), *_of_results(run)]
    return [[name, Cell(reading, state=state), about] for name, reading, state, about in found]


def _of_training(run: RunRecord) -> Iterator[_Check]:
    """Check that all values are finite, the last quarter of each of at most three training losses
    against the first, the share of clipped gradients, and what a discriminator has to detect.
    """
    if names := run.names("train/"):
        broken = sum(1 for row in run.rows if any(row.get(n, 0) is None for n in names))
        about = f"{broken} of {len(run.rows)} rows have a loss or gradient that is not finite"
        reading = f"{1 - broken / len(run.rows):.0%}"
        yield "finite", reading, "bad" if broken else "good", about
    for name in loss_names(run)[:3]:
        values = [value for _, value in run.series(name)]
        if quarter := len(values) // 4:
            before, after = sum(values[:quarter]) / quarter, sum(values[-quarter:]) / quarter
            fall = (before - after) / abs(before) if before else 0.0
            state: State = "good" if fall > 0.02 else "fair" if fall > -0.05 else "bad"
            about = f"mean of the first quarter {before:.3g}, of the last {after:.3g}"
            yield f"{name.removeprefix('train/')} loss", f"{-fall:+.0%}", state, about
    norms = [value for _, value in run.series("train/grad_norm")]
    limit = run.settings.get("optimizer.max_grad_norm")
    if norms and isinstance(limit, int | float) and limit > 0:
        share = sum(norm > limit for norm in norms) / len(norms)
        about = f"share of rows above optimizer.max_grad_norm = {limit:g}"
        about += "" if share < 0.9 else ": the limit determines the step size, not the gradient"
        yield "clipped", f"{share:.0%}", "good" if share < 0.9 else "fair", about
    if (area := run.last("train/detection_auc")) is not None:
        state = "good" if area > 0.7 else "fair" if area > 0.55 else "bad"
        about = "area under the ROC curve of the discriminator; 0.5 is guessing"
        yield "detection", f"{area:.2f}", state, about + (_GUESSING if state == "bad" else "")
    if (entropy := run.last("train/generator_entropy")) is not None:
        state = "good" if entropy > 0.02 else "bad"
        about = "in nats, of what the generator samples" + (_SAME if state == "bad" else "")
        yield "generator entropy", f"{entropy:.2f}", state, about
    if (replaced := run.last("train/replaced_fraction")) is not None:
        about = "tokens that the generator replaced; with few of them there is little to detect"
        yield "replaced", f"{replaced:.1%}", "good" if replaced > 0.04 else "fair", about


def _of_results(run: RunRecord) -> Iterator[_Check]:
    """Check how far teachers differ, what a model abstains on or predicts always, truncated rows,
    and rows that were trained on.
    """
    state: State
    counts = right_counts(run)
    if len(counts) > 1 and (total := sum(counts)):
        wrong, split = counts[0] / total, sum(counts[1:-1]) / total
        about = "rows on which some teachers are right and some wrong; only on these does a "
        about += "weighting rule differ from the mean"
        yield "teachers divided", f"{split:.1%}", "good" if split > 0.02 else "fair", about
        state = "good" if wrong < 0.3 else "fair" if wrong < 0.6 else "bad"
        yield "all teachers wrong", f"{wrong:.0%}", state, "on rows of the training set"
    for name, value in run.metrics.items():
        start, _, last = name.rpartition("/")
        dataset = start.rpartition("/")[2]
        total = run.metrics.get(f"{start}/total") or 0
        if last == "no_answer_predicted" and total and value is not None:
            silent, true = value / total, (run.metrics.get(f"{start}/no_answer_total") or 0) / total
            about = f"questions left unanswered; {true:.0%} have no answer"
            state = "good" if abs(silent - true) < 0.2 else "fair"
            if silent > 0.95 and true < 0.9:
                state, about = "bad", f"{about}. The model has learnt to abstain, not to answer"
            yield f"abstains on {dataset}", f"{silent:.0%}", state, about
        if last == "overlap_with_train" and value:
            about = "evaluated rows that are also training rows: these metrics are too high"
            yield f"overlap on {dataset}", f"{value:.0f}", "bad", about
    for note in notes(run.metrics):
        dataset, _, about = note.partition(": ")
        yield f"predictions on {dataset}", "note", "fair", about


def loss_names(run: RunRecord) -> list[str]:
    """Return the names of the training losses on labels, such as ``train/squad_v2``."""
    return [name for name in run.names("train/") if not NO_LOSS.fullmatch(name)]


def right_counts(run: RunRecord) -> list[float]:
    """Return how often 0, 1, 2, ... teachers were right, summed over the run and over the data sets
    of a mixture.
    """
    counts: dict[int, float] = defaultdict(float)
    for name in run.names("teachers/"):
        if match := re.search(r"/right_(\d+)$", name):
            counts[int(match[1])] += sum(value for _, value in run.series(name))
    return [counts[number] for number in range(max(counts, default=-1) + 1)]


def time_split(run: RunRecord) -> dict[str, float]:
    """Return the seconds of a mean step by activity; empty if no step was timed.

    The wait for teachers happens while the next batch is fetched, so it is subtracted from the data
    time.
    """
    means = []
    for name in ("step_seconds", "teacher_wait_seconds", "data_seconds"):
        values = [value for _, value in run.series(f"time/{name}")]
        values = values[1:] if len(values) > 2 else values  # the first includes the start-up
        means.append(sum(values) / len(values) if values else 0.0)
    step, waited, fetched = means
    if not step:
        return {}
    teachers = min(waited, step)
    data = max(fetched - teachers, 0.0)
    return {DATA: data, TEACHERS: teachers, MODEL: max(step - data - teachers, 0.0)}


def advice(run: RunRecord, split: dict[str, float]) -> list[str]:
    """Return sentences about the bottleneck with the key to change, the most important first."""
    step = sum(split.values())
    share = {part: seconds / step for part, seconds in split.items()}
    sentences = []
    if share[TEACHERS] >= _MUCH:
        lost = f"{share[TEACHERS]:.0%} of a step is spent waiting for teachers"
        if run.settings.get("distillation.host") == "process":
            sentences.append(
                f"{lost}, which run in this process, one after the other. distillation.host=actors "
                "gives them their own cores or GPUs, beside the student."
            )
        else:
            sentences.append(
                f"{lost}. Raise distillation.lookahead to even out slow batches, add replicas of "
                "each teacher (distillation.replicas), or give them more "
                "(distillation.resources.CPU, distillation.resources.GPU)."
            )
        if run.settings.get("distillation.answers") != "once":
            sentences.append(
                "The teachers answer in every epoch. With distillation.answers=once they answer "
                "each row once, before the first step; later epochs, resumes and trials read it "
                "from disk."
            )
    if share[DATA] >= _MUCH:
        sentences.append(
            f"{share[DATA]:.0%} of a step goes into making batches. Shorter rows "
            "(data.max_length_tokens) or fewer, larger passes reduce it."
        )
    return sentences or [
        f"No bottleneck: {share[MODEL]:.0%} of a step is the model itself. To go faster, use fewer "
        "tokens (data.max_length_tokens), lower precision on a GPU, or more workers."
    ]
