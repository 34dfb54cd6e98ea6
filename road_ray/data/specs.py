"""Frozen declarations of what is learnt: a data set points to a task, a task owns a head of some
kind.

Whatever can be derived (number of classes, head shape, problem type) is derived here and stored
nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Classify:
    """One label for a sentence or a pair; the order of ``labels`` is the order of the logits."""

    labels: tuple[str, ...]

    @property
    def width(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Regress:
    """One number for a sentence or a pair, between ``low`` and ``high``."""

    low: float
    high: float

    @property
    def width(self) -> int:
        return 1


@dataclass(frozen=True)
class Span:
    """Start and end of an answer, chosen independently; position 0 means no answer (ROaD part 1,
    section 2).
    """

    @property
    def width(self) -> int:
        return 2


@dataclass(frozen=True)
class Tag:
    """One label a word, read at the word's first sub-token; entity labels in the IOB2 scheme."""

    labels: tuple[str, ...]

    @property
    def width(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Choose:
    """The best of ``choices`` answers to one question; every answer gets one logit."""

    choices: int

    @property
    def width(self) -> int:
        return self.choices


Kind = Classify | Regress | Span | Tag | Choose


@dataclass(frozen=True)
class Task:
    """A task owns one head; every data set of the task feeds that head."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Splits:
    """File names (without compression suffix) of each split, below the data set's folder."""

    train: str | None = "train.tsv"
    dev: tuple[str, ...] = ("dev.tsv",)
    test: str | None = None


@dataclass(frozen=True)
class Columns:
    """Where text and gold stand in a row; a name, or a number for files without a header."""

    text: tuple[str | int, ...]
    label: str | int | None = None
    id: str | int | None = None


@dataclass(frozen=True)
class Dataset:
    """One entry of the catalogue: task, file layout, folder, columns, splits and metrics.

    ``layout`` is a key of ``LAYOUTS`` in ``data/readers.py``.
    ``hub`` is ``(path, configuration)`` on the Hugging Face hub for when no local root is given.
    ``label_map`` maps what the file says to a label name of the task, where the two differ.
    """

    name: str
    task: str
    layout: str
    folder: str
    columns: Columns = Columns(())
    splits: Splits = Splits()
    metrics: tuple[str, ...] = ("accuracy",)
    hub: tuple[str, str | None] | None = None
    label_map: dict[str, str] = field(default_factory=dict)
