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
    """Files, columns and labels of one data set; its task is its own unless ``task`` names one."""

    kind: Literal["classify", "regress", "span", "tag", "choose"] = "classify"
    task: str | None = None
    """A task of the catalogue, whose head and labels it shares; None: a head of its own."""
    layout: (
        Literal["table", "glue_tsv", "squad_json", "mrqa", "quac", "conll", "choices"] | None
    ) = None
    """How the files are laid out; None: JSONL, CSV, TSV or parquet by their names, SQuAD JSON for
    spans, CoNLL columns for tags.
    """
    train: str | None = None
    """Paths, absolute or below data.root; none to leave the split out."""
    dev: str | None = None
    test: str | None = None
    text: tuple[str | int, ...] = ()
    """Names of columns, numbers (from 0) where a file has no header. Of choices: the question, then
    one column a choice.
    """
    label: str | int | None = "label"
    id: str | int | None = None
    """None: rows are numbered."""
    labels: tuple[str, ...] = ()
    """Classify and tag: all of them, in the order of the logits."""
    label_map: dict[str, str] = Field({})
    """What the file says -> one of the labels."""
    low: float = 0.0
    """Regress: the range of the numbers."""
    high: float = 1.0
    metrics: tuple[str, ...] | None = None
    """None: accuracy, or what is usual for the kind."""

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
        """The entry that the catalogue would have for it."""
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
        """The task of a set that shares none."""
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
