"""Declarations of tasks and data sets: a data set belongs to a task, a task has one kind of head.

Number of classes, head shape and problem type are derived from them. The last part is about heads
that transformers has no class for: the key that selects each, and the head it replaces.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from road_ray.errors import DataError
from road_ray.system.own_names import is_own, named_object, unfit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def plain_label(label: str) -> str:
    """Return the label in lower case and Unicode NFC, with spaces and hyphens as ``_`` and whole
    numbers without ``.0``; equal results mean one label.
    """
    plain = re.sub(r"[\s\-]+", "_", unicodedata.normalize("NFC", label).strip().lower())
    return re.sub(r"^(_?\d+)\.0$", r"\1", plain)


def label_text(value: object) -> str:
    """Return a label as text: truth values, numbers and lists as JSON has them; decimals, dates and
    all else as Python has them.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, default=str)
    return str(value)


def listed_labels(text: str, where: str) -> list[str]:
    """Return the labels of a row of several, which is JSON of a list. Raises ``DataError`` for
    another text, a label that is no text or number, and a repeated one.
    """
    labels: object = text
    with suppress(ValueError):
        labels = json.loads(text)
    if not isinstance(labels, list) or not all(isinstance(x, str | int) for x in labels):
        raise DataError(
            f"{where} labels={text!r}: no list of labels\n"
            '  allowed: a list such as ["a", "b"], also an empty one\n'
            "  fix: write JSON, or name the `separator` of a text, or columns of 0 and 1 as `label`"
        )
    names = list(map(label_text, labels))
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataError(
            f"{where} labels={text!r}: {twice[0]!r} occurs twice\n  fix: name every label once"
        )
    return names


def number_in(text: str) -> float | None:
    """Return the number that the text is, which may be infinite, or None."""
    try:
        return float(text)
    except ValueError:
        return None


def below_zero(label: str) -> bool:
    """Return True for a number below 0, by which data sets hide a label."""
    return (number_in(label) or 0.0) < 0


@dataclass(frozen=True)
class _Labels:
    labels: tuple[str, ...]

    @property
    def width(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Classify(_Labels):
    """One label for a sentence or a pair; the order of ``labels`` is the order of the logits.

    >>> import road_ray as rr
    >>> rr.Task("topic", rr.Classify(("sports", "politics"))).kind.width
    2
    """


@dataclass(frozen=True)
class Reason(Classify):
    """One label for a pair, after several readings of it (MT-DNN's stochastic answer network)."""


@dataclass(frozen=True)
class MultiLabel(_Labels):
    """Any number of labels, none too, for a sentence or a pair: one logit a label, whose sigmoid is
    the label's probability. A label is a choice between two classes of logits 0 and ``z``.

    >>> import road_ray as rr
    >>> rr.MultiLabel(("sports", "politics", "weather")).width
    3
    """


@dataclass(frozen=True)
class Regress:
    """One number for a sentence or a pair, between ``low`` and ``high``.

    Heads compute it in units of the range, from 0 to 1, and losses are squared errors in these
    units, so that a task with a wide range does not outweigh the others in an averaged gradient
    (google-research/electra, finetune/classification). Logits, labels, predictions and exported
    models have the task's own numbers.

    >>> import road_ray as rr
    >>> rr.Regress(low=1.0, high=6.0).range
    5.0
    """

    width: ClassVar[int] = 1
    low: float
    high: float

    @property
    def range(self) -> float:
        return self.high - self.low


@dataclass(frozen=True)
class Span:
    """Start and end of an answer, chosen independently; position 0 means no answer (ROaD part 1,
    section 2).

    >>> import road_ray as rr
    >>> rr.Task("manual", rr.Span()).kind.width  # start, end
    2
    """

    width: ClassVar[int] = 2


@dataclass(frozen=True)
class JointSpan(Span):
    """An end that is chosen given the start, and a classifier that says whether there is an answer
    (Clark et al. 2020; google-research/electra).
    """


@dataclass(frozen=True)
class Tag(_Labels):
    """One label a word, read at the word's first sub-token; entity labels in the IOB2 scheme.

    >>> import road_ray as rr
    >>> rr.Tag(("O", "B-PART", "I-PART")).width
    3
    """


@dataclass(frozen=True)
class Choose:
    """Choice among ``choices`` answers to a question; each answer gets one logit."""

    choices: int

    @property
    def width(self) -> int:
        return self.choices


Kind = Classify | MultiLabel | Regress | Span | Tag | Choose
HEADS: dict[type, str] = {  # suffixes of the names of Hugging Face's classes
    Span: "ForQuestionAnswering",
    Classify: "ForSequenceClassification",
    MultiLabel: "ForSequenceClassification",
    Regress: "ForSequenceClassification",
    Tag: "ForTokenClassification",
    Choose: "ForMultipleChoice",
}

KINDS: dict[str, type[Kind]] = {
    **{"classify": Classify, "multi": MultiLabel, "regress": Regress},
    **{"span": Span, "tag": Tag, "choose": Choose},
}
"""Kinds by their names in a configuration."""


@dataclass(frozen=True)
class Task:
    """A task owns one head, ``package.module:Class`` if it is the user's own; every data set of the
    task feeds that head.

    >>> import road_ray as rr
    >>> topics = rr.Task("topic", rr.Classify(("sports", "politics")))
    >>> rr.Ensemble(["runs/t0", "runs/t1"], task=topics)  # doctest: +SKIP
    """

    name: str
    kind: Kind
    head: str | None = field(default=None, repr=False)  # no part of the key of encoded rows


@dataclass(frozen=True)
class Columns:
    """Columns of text, label and id: names, or numbers for files without a header.

    ``a|b`` is the first of the two names that the row has. A tuple of labels are columns of 0 and
    1; ``separator`` is that of several labels in one cell.
    """

    text: tuple[str | int, ...]
    label: str | int | tuple[str, ...] | None = None
    id: str | int | None = None
    separator: str | None = None


@dataclass(frozen=True)
class Hub:
    """Location of a data set on the Hugging Face hub: path, configuration, revision, differences.

    ``only`` is a column and the value that it has in the rows of this set; ``splits`` names the
    hub's split where it is not ``train``, ``validation`` or ``test``; ``columns`` are those of the
    hub where they are not the files'.
    """

    path: str
    configuration: str | None = None
    only: tuple[str, str] | None = None
    splits: dict[str, str] = field(default_factory=dict)
    revision: str | None = None
    columns: Columns | None = None


_METRIC = (
    "a function of the true and the predicted values [N], as floats, that returns a number, 1 for "
    "the best\n  fix: correct it until road_ray.testing.check_metric passes"
)


def own_metric(name: str) -> Callable[[NDArray[np.float64], NDArray[np.float64]], float]:
    """Return the user's own metric ``package.module:name``. It is called once with two right
    predictions, so that a mistake fails before a training; ``ConfigError`` tells it.
    """
    import numpy as np

    metric = named_object("metrics", name, {}, _METRIC)
    try:
        if not math.isfinite(score := float(metric(np.array([0.0, 1.0]), np.array([0.0, 1.0])))):
            raise ValueError(f"returns {score}")
    except Exception as error:
        problem = f"called with [0, 1] and [0, 1]: {error!r}"
        raise unfit("metrics", name, problem, _METRIC) from error
    return metric  # type: ignore[no-any-return]  # seen when it was called


ANSWER_LANGUAGES = ("ar", "de", "en", "es", "hi", "ja", "th", "vi", "zh")


@dataclass(frozen=True)
class Dataset:
    """One entry of the catalogue: task, file layout, folder, columns, splits and metrics.

    ``layout`` is a key of ``LAYOUTS`` in ``data/readers/layouts.py``. ``splits`` has the names of
    files below the folder, without compression suffix, by ``train``, ``dev`` and ``test``; several
    are concatenated, ``a|b`` is the first of the two that exists. ``test_columns`` are those of a
    test file that is laid out in another way. ``hub`` serves when no local root is given.
    ``label_map`` maps what the file says to a label name of the task, where the two differ; that of
    an own data set also has the names themselves.
    ``also`` names tasks that learn from the same rows, each with a head of its own.
    ``dev_fraction`` is the fraction of the training rows that is the dev split; None: it has files.
    ``negative_labels`` is True if a number below 0 may be a label; else a test split hides labels
    by such numbers. ``reader``, ``package.module:name``, reads the rows of a file in its place.
    ``language``, of ``ANSWER_LANGUAGES``, is that of answers to score by MLQA's script; empty: by
    SQuAD's.
    """

    name: str
    task: str
    layout: str
    folder: str
    columns: Columns = Columns(())
    splits: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    metrics: tuple[str, ...] = ("accuracy",)
    hub: Hub | None = None
    label_map: dict[str, str] = field(default_factory=dict)
    test_columns: Columns | None = None
    also: tuple[str, ...] = ()
    dev_fraction: float | None = None
    negative_labels: bool = False
    reader: str | None = None
    language: str = ""

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the metrics in results: of ``package.module:name`` the last part."""
        return tuple(m.rpartition(":")[2] if is_own(m) else m for m in self.metrics)

    def named(self, label: str) -> str:
        """Return the task's name of a label of a row, or of each of several in a JSON list, which
        a file may spell in another way; a label that has none as it is.
        """
        names = {plain_label(name): name for name in self.label_map.values()}
        names |= {plain_label(value): name for value, name in self.label_map.items()}
        names |= self.label_map
        if label not in names and label.startswith("["):
            with suppress(DataError):  # told with its place where the row is encoded
                several = [self.named(one) for one in listed_labels(label, "")]
                return json.dumps(several, ensure_ascii=False)
        return names.get(label) or names.get(plain_label(label), label)


@dataclass(frozen=True)
class SpecialHead:
    """A head of road_ray, selected by ``data.<key>=<value>``."""

    name: str  # in messages
    key: str
    value: str
    kind: type[Kind]  # has the fields of the one that it replaces
    replaces: type[Kind]
    num_texts: int | None = None  # of a row; None: any number

    @property
    def file_name(self) -> str:
        """Name of the weights file beside the encoder's."""
        return f"{self.name.replace(' ', '_')}.safetensors"

    @property
    def override(self) -> str:
        """Override that selects the head."""
        return f"data.{self.key}={self.value}"


SPECIAL_HEADS = (
    SpecialHead("joint span head", "span_head", "joint", JointSpan, replaces=Span),
    SpecialHead(
        "answer network", "pair_head", "answer_network", Reason, replaces=Classify, num_texts=2
    ),
)


def special_head(task: Task) -> SpecialHead | None:
    """Return the entry of a task's head; None for one of Hugging Face."""
    kind = type(task.kind)
    if task.head is not None:
        return SpecialHead("own head", "sets.NAME.head", task.head, kind, replaces=kind)
    return next((head for head in SPECIAL_HEADS if head.kind is kind), None)
