"""Metrics of classes, numbers, tags and label sets, and the calibration of probabilities.

Every score is a percentage (accuracy and F1 0 to 100; correlations -100 to 100), as in the GLUE
tables; larger is better. A new metric is an entry of ``known_metrics``, or a function of any
module as ``package.module:name``, where the part behind the colon names the result. Entities are
scored by seqeval. A label of a set is predicted where its probability is above its threshold, which
is 0.5 where none was tuned: there the sign of the logit decides.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_softmax, softmax

from road_ray.data.examples import Features, TagExample
from road_ray.data.task_and_dataset import own_metric
from road_ray.errors import DataError

_log = logging.getLogger(__name__)

F1_OF = "f1_of_"
"""Beginning of the metrics that are the F1 of one label, such as ``f1_of_neutral``."""
Numbers = NDArray[np.float64]
Metric = Callable[[Numbers, Numbers], Any]  # of gold and predicted values
_CORRELATIONS = ("matthews", "pearson", "spearman")
OUTSIDE = "O"
Labels = NDArray[np.integer[Any]]
Thresholds = Mapping[str, float]
UNTUNED = 0.5
LABEL_THRESHOLDS = "label_thresholds"  # entry of a model's record
_BINS = 15  # of the calibration error
_BOUNDS = (0.05, 20.0)  # of a temperature
_MOST_LABELS = 20  # of a table of confusions


def threshold_entry(threshold: float | Thresholds | None) -> dict[str, object]:
    """Return the entry of a record with a no-answer threshold, or those of several labels."""
    name = LABEL_THRESHOLDS if isinstance(threshold, Mapping) else "no_answer_threshold"
    return {name: threshold}


def stored_threshold(record: Mapping[str, Any]) -> float | Thresholds | None:
    """Return the no-answer threshold in the record of a model, or those of several labels."""
    threshold: float | Thresholds | None = record.get(LABEL_THRESHOLDS)
    return threshold or record.get("no_answer_threshold")


def known_metrics(labels: Sequence[str] = ()) -> dict[str, Metric]:
    """Return the metrics by name, with the F1 of each of the ``labels``."""
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import f1_score, matthews_corrcoef

    macro_f1 = partial(f1_score, average="macro", zero_division=0.0)
    known: dict[str, Metric] = {
        "accuracy": lambda gold, predicted: (gold == predicted).mean(),
        "f1": partial(macro_f1, labels=[1]),
        "macro_f1": macro_f1,
        "matthews": matthews_corrcoef,
        "pearson": lambda gold, predicted: pearsonr(predicted, gold).statistic,
        "spearman": lambda gold, predicted: spearmanr(predicted, gold).statistic,
    }
    known |= {f"{F1_OF}{label}": partial(macro_f1, labels=[n]) for n, label in enumerate(labels)}
    return known


def score(
    metrics: Sequence[str], predicted: ArrayLike, gold: ArrayLike, labels: Sequence[str] = ()
) -> dict[str, float]:
    """Return ``{metric: percentage}`` of class indices, or of numbers for correlations. ``[N],
    [N]``. ``labels`` are the names of the classes, which ``f1_of_<label>`` needs. The F1 of a class
    is 0 if it is neither predicted nor a label, and a correlation if either side is constant.
    """
    predictions, truth = as_numbers(predicted), as_numbers(gold)
    known, result = known_metrics(labels), {}
    for name in metrics:
        if name not in known:  # the user's own: other names the data set's configuration refuses
            result[name.rpartition(":")[2]] = 100.0 * float(own_metric(name)(truth, predictions))
        elif name in _CORRELATIONS and (np.ptp(predictions) == 0 or np.ptp(truth) == 0):
            _log.warning("%s: all predicted or all gold values are equal; counted as 0", name)
            result[name] = 0.0
        else:
            result[name] = 100.0 * float(known[name](truth, predictions))
    return result


def label_balance(predicted: NDArray[Any], gold: NDArray[Any]) -> dict[str, float]:
    """Return what scores are to be compared with: ``majority_accuracy`` of predicting the most
    frequent label, or set of labels, for every row; of sets ``majority_micro_f1`` of predicting the
    most frequent label; and the number of ``predicted_labels``. ``[N], [N]``, or sets ``[N, C]``.
    """
    _, counts = np.unique(gold, axis=0, return_counts=True)
    found = {"majority_accuracy": 100.0 * float(counts.max()) / len(gold)}
    if gold.ndim == 1:
        return found | {"predicted_labels": float(len(np.unique(predicted)))}
    found["majority_micro_f1"] = 200.0 * int(gold.sum(0).max()) / (len(gold) + int(gold.sum()))
    return found | {"predicted_labels": float(predicted.any(0).sum())}


def as_numbers(values: ArrayLike) -> Numbers:
    """Return the values ``[N]`` as numbers. Raises ``DataError`` for none and for one not finite:
    then the model has diverged.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0 or not np.isfinite(array).all():
        raise DataError(f"scores: {array}\n  allowed: one or more finite numbers")
    return array


def word_logits(
    features: Features, examples: Sequence[TagExample], logits: Sequence[NDArray[np.float32]]
) -> list[list[NDArray[np.float32] | None]]:
    """Return the logits of every word of every sentence, read at its first sub-token; None for a
    word that no row has.
    """
    assert features.words is not None  # of a tagging
    found: list[list[NDArray[np.float32] | None]] = [[None] * len(e.words) for e in examples]
    for row, values in enumerate(logits):
        words = features.words[features.bounds[row] : features.bounds[row + 1]]
        for place in np.flatnonzero(words >= 0):
            found[features.example[row]][words[place]] = values[place]
    return found


def predicted_tags(labels: Sequence[str], words: Sequence[NDArray[np.float32] | None]) -> list[str]:
    """Return the likeliest tag of every word of a sentence by its logits."""
    return [OUTSIDE if values is None else labels[int(values.argmax())] for values in words]


def entity_scores(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Return ``entity_f1``, ``entity_precision`` and ``entity_recall`` (whole entities,
    micro-averaged) and ``accuracy`` (words), as percentages, with the ``label_balance`` of words;
    and these of the entities of each type, with their number.

    An entity that starts with ``I-`` counts as started. Source: conlleval, as implemented in
    seqeval.
    """
    from seqeval.metrics import classification_report

    truth, predictions = [list(tags) for tags in gold], [list(tags) for tags in predicted]
    names = {"precision": "precision", "recall": "recall", "f1": "f1-score"}
    words, gold_words = ([tag for tags in side for tag in tags] for side in (predictions, truth))
    report = {"micro avg": dict.fromkeys(names.values(), 0.0)}
    if {*words, *gold_words} - {OUTSIDE}:
        report = classification_report(truth, predictions, output_dict=True, zero_division=0)
    scores = {f"entity_{name}": 100.0 * float(report["micro avg"][names[name]]) for name in names}
    _, numbers = np.unique(words + gold_words, return_inverse=True)
    given, right = np.split(numbers, 2)
    scores |= score(("accuracy",), given, right) | label_balance(given, right)
    return scores, {
        kind: {"entities": int(found["support"])}
        | {name: round(100.0 * float(found[key]), 2) for name, key in names.items()}
        for kind, found in report.items()
        if kind not in ("micro avg", "macro avg", "weighted avg")
    }


def predicted_sets(
    probabilities: NDArray[np.float64], labels: Sequence[str], limits: float | Thresholds | None
) -> NDArray[np.bool_]:
    """Return which labels are predicted, of probabilities ``[..., C]``, above one threshold for all
    labels or one for each.
    """
    above: Any = limits
    if limits is None or isinstance(limits, Mapping):
        above = np.array([(limits or {}).get(label, UNTUNED) for label in labels])
    predicted: NDArray[np.bool_] = probabilities > above
    return predicted


def best_thresholds(
    probabilities: NDArray[np.float64], gold: Labels, labels: Sequence[str]
) -> dict[str, float]:
    """Return the threshold with the best F1 of each label on these (dev) rows, ``[N, C]`` both.

    It lies midway between two probabilities of rows. The nearest to 0.5 is taken among equals; 0.5
    itself where it is as good, and for a label that no row has.
    """
    return {
        label: _best(probabilities[:, column], gold[:, column] == 1)
        for column, label in enumerate(labels)
    }


def _best(probabilities: NDArray[np.float64], gold: NDArray[np.bool_]) -> float:
    values = np.unique(probabilities)
    limits = np.array([UNTUNED, *((values[1:] + values[:-1]) / 2), values[0] / 2])
    order = np.sort(probabilities)
    positives = np.sort(probabilities[gold])
    num_predicted = len(order) - np.searchsorted(order, limits, "right")
    hits = len(positives) - np.searchsorted(positives, limits, "right")
    f1 = 2 * hits / np.maximum(num_predicted + len(positives), 1)
    best = limits[f1 == f1.max()]
    return float(best[np.abs(best - UNTUNED).argmin()])


def label_set_scores(
    metrics: Sequence[str],
    probabilities: NDArray[np.float64],
    predicted: NDArray[np.bool_],
    gold: Labels,
    labels: Sequence[str],
) -> dict[str, float]:
    """Return the ``metrics`` of predicted labels, ``[N, C]`` all, as scikit-learn computes them.

    A row that rightly has no label counts as 1 in ``samples_f1``; the F1 of a label that is neither
    predicted nor of a row is 0.
    """
    from sklearn.metrics import f1_score, label_ranking_average_precision_score

    f1: Any = partial(f1_score, gold, predicted, zero_division=0.0)
    scores = {}
    for name in metrics:
        if name.startswith(F1_OF):
            score = f1(average=None)[labels.index(name.removeprefix(F1_OF))]
        elif name == "subset_accuracy":
            score = (predicted == gold).all(-1).mean()
        elif name == "lrap":
            score = label_ranking_average_precision_score(gold, probabilities)
        else:
            empty = float(name == "samples_f1")
            score = f1(average=name.removesuffix("_f1"), zero_division=empty)
        scores[name] = 100.0 * float(score)
    return scores


def table_of_labels(
    predicted: NDArray[np.bool_],
    gold: Labels,
    labels: Sequence[str],
    thresholds: Thresholds | None = None,
) -> dict[str, dict[str, float]]:
    """Return precision, recall, F1, rows, predicted rows and any threshold of each label."""
    from sklearn.metrics import precision_recall_fscore_support

    columns = precision_recall_fscore_support(gold, predicted, average=None, zero_division=0.0)
    scores = list(zip(("precision", "recall", "f1"), columns, strict=False))
    return {
        label: {"rows": int(columns[3][number]), "predicted": int(predicted[:, number].sum())}
        | {name: round(100.0 * float(column[number]), 2) for name, column in scores}
        | ({} if thresholds is None else {"threshold": round(thresholds.get(label, UNTUNED), 4)})
        for number, label in enumerate(labels)
    }


def probabilities(
    logits: NDArray[np.floating[Any]], temperature: float = 1.0, *, several: bool = False
) -> NDArray[np.float64]:
    """Return ``softmax(logits / temperature)`` in float64, of ``several`` labels a row the sigmoid.
    ``[..., C] -> [..., C]``.
    """
    scaled = logits.astype(np.float64) / temperature
    shares: NDArray[np.float64] = expit(scaled) if several else softmax(scaled, axis=-1)
    return shares


def fit_temperature(logits: NDArray[np.floating[Any]], gold: NDArray[np.integer[Any]]) -> float:
    """Return the temperature T, 0.05 to 20, whose ``softmax(logits / T)`` gives the labels the
    smallest mean negative log-likelihood: ``[N, C], [N]``. With several labels a row, 0 or 1 in
    ``[N, C]``, that of ``sigmoid(logits / T)`` over all of them.

    That mean is convex in 1/T, so a search in one dimension finds the minimum; it is at the lower
    bound where all rows are right. It changes no prediction. Source: Guo et al. 2017, section 4.2.
    """
    from scipy.optimize import minimize_scalar

    def loss(log_t: float) -> float:
        scaled = logits.astype(np.float64) / math.exp(log_t)
        if gold.ndim == 2:
            return float(np.logaddexp(0, np.where(gold == 1, -scaled, scaled)).mean())
        return -float(log_softmax(scaled, axis=-1)[np.arange(len(gold)), gold].mean())

    found = minimize_scalar(loss, bounds=np.log(_BOUNDS), method="bounded", options={"xatol": 1e-6})
    return math.exp(found.x)


def calibration(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the expected calibration error and each bin that has rows: mean confidence, accuracy,
    rows. ``[N], [N]``.

    ``ECE = 100 * sum_b n_b / N * |accuracy_b - mean confidence_b|`` over 15 bins of equal width,
    in percentage points (Guo et al. 2017, equation 3).
    """
    places = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    bins, error = [], 0.0
    for place in np.unique(places):
        inside = places == place
        mean, accuracy = float(confidence[inside].mean()), float(right[inside].mean())
        bins.append([round(mean, 4), round(accuracy, 4), int(inside.sum())])
        error += float(inside.mean()) * abs(mean - accuracy)
    return {"ece": round(100 * error, 2), "bins": bins}


def coverage(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> list[list[float]]:
    """Return what a model answers that abstains below a confidence: at most 20 rows of smallest
    confidence, percentage of rows answered and accuracy on these, all rows first. ``[N], [N]``.
    """
    curve = []
    for limit in np.unique(np.quantile(confidence, np.arange(20) / 20, method="lower")):
        answered = confidence >= limit
        shares = (100 * float(answered.mean()), 100 * float(right[answered].mean()))
        curve.append([float(limit), *(round(share, 2) for share in shares)])
    return curve


def calibrated(
    logits: NDArray[np.floating[Any]],
    gold: NDArray[np.integer[Any]],
    temperature: float | None,
    *,
    fit: bool = False,
) -> tuple[float | None, dict[str, float]]:
    """Return the temperature, with ``fit`` that of these rows if there is none, and as metrics
    ``ece`` before and ``ece_calibrated`` with it: of the most probable classes, or of several
    labels that of each label's probability with whether it is there.
    """
    if temperature is None and fit and len(gold):
        temperature = fit_temperature(logits, gold)
    if temperature is None or not len(gold):
        return temperature, {}
    found = {"temperature": temperature}
    for name, t in (("ece", 1.0), ("ece_calibrated", temperature)):
        confidence, right = probabilities(logits, t, several=gold.ndim == 2), gold == 1
        if gold.ndim == 1:
            confidence, right = confidence.max(-1), logits.argmax(-1) == gold
        found[name] = float(calibration(confidence.ravel(), right.ravel())["ece"])
    return temperature, found


def class_diagnostics(
    logits: NDArray[np.float32],
    gold: NDArray[np.integer[Any]],
    labels: Sequence[str],
    temperature: float = 1.0,
) -> dict[str, Any]:
    """Return rows, labels, ``confusion[gold][predicted]``, ``per_label`` (up to 20 labels),
    ``calibration`` and ``coverage`` of class logits ``[N, C]`` at a temperature, with labels
    ``[N]``.
    """
    from sklearn.metrics import confusion_matrix

    predicted, confidence = logits.argmax(-1), probabilities(logits, temperature).max(-1)
    diagnostics: dict[str, Any] = {
        "rows": len(gold),
        "calibration": calibration(confidence, predicted == gold),
        "coverage": coverage(confidence, predicted == gold),
    }
    if len(labels) <= _MOST_LABELS:
        confusion = confusion_matrix(gold, predicted, labels=range(len(labels)))
        diagnostics |= {"labels": list(labels), "confusion": confusion.tolist()}
        of_class = np.eye(len(labels), dtype=np.bool_)
        diagnostics["per_label"] = table_of_labels(of_class[predicted], of_class[gold], labels)
    return diagnostics
