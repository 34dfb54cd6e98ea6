"""A user's own files as a data set: one entry in the YAML, no code.

data:
  dataset: tickets
  sets:
    tickets: {train: tickets.csv, text: [subject, body], label: queue, labels: [sales, help]}
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from road_ray.config import Config
from road_ray.data.readers.files import repeated
from road_ray.data.schema import (
    Choose,
    Classify,
    Columns,
    Dataset,
    Regress,
    Span,
    Splits,
    Tag,
    Task,
    plain_label,
)

_LAYOUTS = {"span": "squad_json", "tag": "conll", "choose": "choices"}
_NAME = re.compile(r"[^\W_][\w.-]{0,79}")
_METRICS = {"span": ("exact", "f1"), "tag": ("entity_f1",), "regress": ("pearson", "spearman")}


def _set_name(name: str) -> str:
    """The name of a set, which names directories and figures too."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name[:80]!r} is no name for a data set\n    allowed: up to 80 letters, digits, and "
            "after the first also . _ -"
        )
    return name


SetName = Annotated[str, AfterValidator(_set_name)]


class CustomDataset(Config):
    """Task, files, columns and labels of one data set. ``data.sets.<name>`` holds it;
    ``data/loading.py`` turns it into an entry like those of the catalogue.
    """

    kind: Literal["classify", "regress", "span", "tag", "choose"] = "classify"
    """Kind of the task. ``classify``: one label for a text or a pair. ``regress``: one number for a
    text or a pair. ``span``: an answer span in a context, or none. ``tag``: one label for each
    word. ``choose``: the best of several answers."""
    task: str | None = None
    """Task of the catalogue whose head and labels the data set shares, such as ``sentiment``. None:
    a separate task with a new head."""
    layout: (
        Literal["table", "glue_tsv", "squad_json", "mrqa", "quac", "conll", "choices"] | None
    ) = None
    """Layout of the files. ``table``: JSONL, CSV, TSV or Parquet by suffix. ``glue_tsv``: GLUE's
    TSV without quoting. ``squad_json``, ``mrqa``, ``quac``: those formats. ``conll``: columns, one
    word a line. ``choices``: a table with one column for each choice. None: ``squad_json`` for
    spans, ``conll`` for tags, ``choices`` for choices, else ``table``."""
    train: str | None = None
    """Path of the training file, absolute or below ``data.root`` (below the working directory
    without one); a ``.gz`` of that name is found too. None: the data set has no training split."""
    dev: str | None = None
    """Path of the evaluation file, absolute or below ``data.root``. None: the data set has no dev
    split."""
    test: str | None = None
    """Path of the test file, absolute or below ``data.root``; its labels may be missing. None: the
    data set has no test split."""
    text: tuple[str | int, ...] = ()
    """Columns of the text, by name, or by number from 0 in a file without a header. ``classify``
    and ``regress``: one or two. ``choose``: the question, then one column for each choice. ``tag``:
    the column of the words, the first by default."""
    label: str | int | None = "label"
    """Column of the label, by name or number. ``tag``: the last column by default. ``choose``: the
    number of the right choice from 0, or its letter. None: the files have no labels."""
    id: str | int | None = None
    """Column of a unique identifier, which predictions repeat. None: rows are numbered from 0."""
    labels: tuple[str, ...] = ()
    """All labels of ``classify`` and ``tag``, in the order of the logits; ``tag`` uses the IOB2
    scheme. Empty: those of ``task``, or none where the kind has no labels."""
    label_map: dict[str, str] = Field({})
    """Map from a value of the label column to one of ``labels``. Empty: the file holds the labels
    themselves."""
    low: float = 0.0
    """Smallest number of ``regress``; a label below it is an error. Training computes in units of
    the range from ``low`` to ``high``; predictions are in the labels' own numbers, not clipped."""
    high: float = 1.0
    """Largest number of ``regress``; a label above it is an error."""
    metrics: tuple[str, ...] | None = None
    """Metrics to compute, the principal one first: ``accuracy``, ``f1``, ``matthews``, ``pearson``
    or ``spearman`` of labels and numbers, ``exact`` and ``f1`` of spans, ``entity_f1`` of tags.
    None: the usual ones of the kind."""

    @field_validator("labels")
    @classmethod
    def _each_once(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        if twice := repeated(map(plain_label, labels)):
            alike = [label for label in labels if plain_label(label) in twice]
            raise ValueError(
                f"{', '.join(map(repr, alike))}: one label, as case, spaces and hyphens tell none "
                "apart\n    allowed: every label once"
            )
        return labels

    @model_validator(mode="after")
    def _whole(self) -> CustomDataset:
        if not (self.train or self.dev or self.test):
            raise ValueError("names no file; give train, dev or test")
        if self.task is None and self.kind in ("classify", "tag") and len(self.labels) < 2:
            raise ValueError(
                f"labels = {list(self.labels)}: at least two, or a task; for numbers: kind: regress"
            )
        if self.kind == "choose" and len(self.text) < 3:
            raise ValueError("text names the question and at least two choices")
        if self.kind in ("classify", "regress") and len(self.text) not in (1, 2):
            raise ValueError(f"text = {list(self.text)}: one or two columns")
        if self.task is None and (odd := set(self.label_map.values()) - set(self.labels)):
            raise ValueError(
                f"label_map names {', '.join(map(repr, sorted(odd)))}, labels are "
                f"{list(self.labels)}"
            )
        return self

    def dataset(self, name: str) -> Dataset:
        """Return the entry that the catalogue would hold for this data set."""
        text, label = self.text, self.label
        if self.kind == "tag" and not text:
            text, label = (0,), -1 if label == "label" else label
        return Dataset(
            name,
            task=self.task or name,
            layout=self.layout or _LAYOUTS.get(self.kind, "table"),
            folder="",
            columns=Columns(text, label, self.id),
            splits=Splits(self.train, self.dev, self.test),
            metrics=self.metrics or _METRICS.get(self.kind, ("accuracy",)),
            label_map=self.label_map,
        )

    def own_task(self, name: str) -> Task:
        """Return the task of a data set that shares none."""
        match self.kind:
            case "classify":
                return Task(name, Classify(self.labels))
            case "regress":
                return Task(name, Regress(self.low, self.high))
            case "span":
                return Task(name, Span())
            case "tag":
                return Task(name, Tag(self.labels))
            case "choose":
                return Task(name, Choose(len(self.text) - 1))
