"""Label errors of a training set, found by teachers of folds, each row by those that have not seen
it: confident learning.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from road_ray.data.examples import UNKNOWN, Example, TextExample
from road_ray.data.load_split import Split, load_split
from road_ray.data.task_and_dataset import Classify
from road_ray.data.tokenizer import load_tokenizer, pad_id_of
from road_ray.data.training_rows import DROP, FIELDS, fold_of
from road_ray.distillation.teacher import Teacher
from road_ray.errors import ConfigError
from road_ray.evaluation.evaluate_split import batched_logits
from road_ray.evaluation.metrics import probabilities
from road_ray.recipes.run_directory.recorded_config import RECORD, load_recorded
from road_ray.recipes.train.config import FinetuneDataConfig, TeachersConfig
from road_ray.recipes.train.teaching_config import read_teacher_list
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)


def label_errors(teachers: Path, *, relabel: bool = False) -> list[dict[str, Any]]:
    """Return a row of a table of ``data.corrections`` for each labelled training row of the
    finished ``road teachers`` that wrote the list ``teachers``: the suspected ones first, each by
    its margin. Suspected rows have a ``correction``: ``drop``, or with ``relabel`` the label that
    the teachers suggest.

    Raises ``ConfigError`` for teachers that have seen all rows, and for data without classes.
    """
    directories, num_folds = read_teacher_list(teachers, "teachers")
    per_fold, rows = len(directories) // num_folds, list[dict[str, Any]]()
    if num_folds == 1:
        raise ConfigError(
            f"{teachers}: these teachers were trained on all rows, and know the labels of each\n"
            "  fix: road teachers num_folds=5, so that each row has teachers that have not seen it"
        )
    config = load_recorded(TeachersConfig, teachers.parent / RECORD)
    tokenizer = load_tokenizer(directories[0])
    splits = _folds(config.data, tokenizer, num_folds)
    answers, gold, examples = [], [], list[Example]()
    for fold, split in enumerate(splits):
        members = directories[fold * per_fold : (fold + 1) * per_fold]
        answers.append(_probabilities(members, split, pad_id_of(tokenizer)))
        gold.append(split.features.example_labels.astype(np.int64))
        examples += split.examples
    labels, shares = np.concatenate(gold), np.concatenate(answers)
    known = np.flatnonzero(labels != UNKNOWN)
    labels, kind = labels[known], splits[0].task.kind
    errors = find_label_errors(shares[known], labels)
    assert isinstance(kind, Classify)
    if len(predicted := {*errors.suggested.tolist()}) < 2:
        _log.warning(
            "%s: the teachers predict %s for every row, so they cannot judge labels: train longer",
            *(teachers, *(kind.labels[number] for number in predicted)),
        )
    order, told = np.lexsort((errors.margin, ~errors.suspected)), set[tuple[Any, str]]()
    for number in order.tolist():
        example = examples[known[number]]
        assert isinstance(example, TextExample)
        label, suggested = kind.labels[labels[number]], kind.labels[errors.suggested[number]]
        name = example.id.removesuffix(" turned")  # a pair that is trained on in both orders
        texts = example.texts if name == example.id else example.texts[::-1]
        if (same := (texts, label)) in told:
            continue
        told.add(same)
        correction = (suggested if relabel else DROP) if errors.suspected[number] else ""
        confidence, margin = errors.self_confidence[number], errors.margin[number]
        judged = (correction, label, suggested, round(confidence, 4), round(margin, 4))
        rows.append(dict(zip(FIELDS, (*judged, *(*texts, "")[:2], name), strict=True)))
    return rows


def _folds(data: FinetuneDataConfig, tokenizer: Any, num_folds: int) -> list[Split]:
    """Return the training rows of each fold."""
    kept = [lambda example, n=n: fold_of(example, num_folds) == n for n in range(num_folds)]
    splits = [load_split(data.dataset, "train", data, tokenizer, keep=keep) for keep in kept]
    if not isinstance(splits[0].task.kind, Classify):
        raise ConfigError(
            f"{data.dataset}: has no classes\n  allowed: data sets with one label a text or pair"
        )
    return splits


def _probabilities(directories: Sequence[str], split: Split, pad_id: int) -> NDArray[np.float64]:
    """Return the mean probabilities of the teachers for the rows of a split ``[N, C]``."""
    rows, kind = split.features, split.task.kind

    def shares(directory: str) -> Any:
        teacher = Teacher(directory, split.task, device=Worker.alone().device)
        # Those of windows are joined before they are probabilities, as in an evaluation.
        joined = batched_logits(teacher, rows, kind, pad_id)
        logits = np.reshape(joined, (-1, kind.width))
        return probabilities(logits, several=False)

    mean: NDArray[np.float64] = np.mean([*map(shares, directories)], 0)
    return mean


class LabelErrors(NamedTuple):
    """Judgement of the models on the label of each row, ``[N]`` each."""

    self_confidence: NDArray[np.float64]
    """Probability of the label."""
    margin: NDArray[np.float64]
    """Probability of the label less that of the most probable other one."""
    suggested: NDArray[np.int64]
    """The most probable label."""
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
