"""Custom data sets: a user's own files as a data set, by one entry in the YAML and no code.

data:
  dataset: tickets
  sets:
    tickets: {train: tickets.csv, text: [subject, body], label: queue, labels: [sales, help]}
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from road_ray.config import Config
from road_ray.config.base import ByContent, beside_file
from road_ray.data.task_and_dataset import (
    ANSWER_LANGUAGES,
    KINDS,
    Columns,
    Dataset,
    Hub,
    Task,
    plain_label,
)
from road_ray.errors import did_you_mean
from road_ray.system.own_names import is_own, name_of

_LAYOUTS = {"span": "squad_json", "tag": "conll", "choose": "choices"}
LAYOUT_NAMES = ("table", "glue_tsv", "squad_json", "mrqa", "quac", "conll", "choices")
_NAME = re.compile(r"[^\W_][\w.-]{0,79}")
SPANS = "mrc"  # task of the catalogue's spans; all heads of spans have one shape
TOO_FEW_LABELS = "at least two, or a task; for numbers: kind: regress"
_METRICS: dict[str, tuple[str, ...]] = {
    "classify": ("accuracy", "f1", "macro_f1", "matthews", "pearson", "spearman"),
    "multi": ("micro_f1", "macro_f1", "samples_f1", "subset_accuracy", "lrap"),
    "regress": ("pearson", "spearman"),
    "span": ("exact", "f1", *(f"{m}_{code}" for code in ANSWER_LANGUAGES for m in ("exact", "f1"))),
    "tag": ("entity_f1", "entity_precision", "entity_recall"),
    "choose": ("accuracy", "macro_f1", "matthews"),
}
_USUAL = {"classify": 1, "span": 2, "tag": 1, "choose": 1}  # first ones; of other kinds all
_UNKNOWN = -100  # as examples.UNKNOWN, which would load numpy with a configuration
_F1_OF = "f1_of_"  # before a label, as in evaluation.metrics


def _set_name(name: str) -> str:
    """Return ``name``. Raises ``ValueError`` for one that is unfit for directories and figures."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name[:80]!r} is no name for a data set\n    allowed: up to 80 letters, digits, and "
            "after the first also . _ -"
        )
    return name


SetName = Annotated[str, AfterValidator(_set_name)]


def _one_or_more(value: Any) -> Any:
    """Return one column as a tuple of one."""
    return (value,) if isinstance(value, str | int) and not isinstance(value, bool) else value


_Columns = Annotated[
    tuple[str | int, ...],
    BeforeValidator(_one_or_more, json_schema_input_type=tuple[str | int, ...] | str | int),
]
_File = Annotated[str | None, beside_file(unless="hub"), ByContent(unless="hub")]


class CustomDataset(Config):
    """Task, files, columns and labels of one data set. ``data.sets.<name>`` holds it;
    ``data/load_split.py`` turns it into an entry like those of the catalogue.
    """

    kind: Literal["classify", "multi", "regress", "span", "tag", "choose"] = "classify"
    """Kind of the task. ``classify``: one label for a text or a pair. ``multi``: any number of
    labels for a text or a pair, none too. ``regress``: one number for a text or a pair. ``span``:
    an answer span in a context, or none. ``tag``: one label for each word. ``choose``: the best of
    several answers."""
    task: str | None = None
    """Task whose head the data set shares: one of the catalogue, such as ``sentiment``, or any name
    that several sets of ``data.sets`` have in common. None: ``mrc``, the task of SQuAD, for spans;
    else a separate task with a new head."""
    layout: Annotated[str, name_of("layout", LAYOUT_NAMES)] | None = Field(
        None, json_schema_extra={"anyOf": [{"enum": [None, *LAYOUT_NAMES]}, {"type": "string"}]}
    )
    """Layout of the files. ``table``: CSV, TSV, JSONL, a JSON array, Parquet or Arrow by suffix.
    ``glue_tsv``: GLUE's TSV without quoting. ``squad_json``: files of SQuAD, QuAC or MRQA, or a
    table of flat rows; ``mrqa`` and ``quac`` are other names of it. ``conll``: columns, one word a
    line, or a table with lists of words and tags. ``choices``: a table with one column for each
    choice. Or a reader of your own, ``package.module:name``: a function from a path to its rows.
    None: ``squad_json`` for spans, ``conll`` for tags, ``choices`` for choices, else ``table``."""
    train: _File = None
    """Path of the training file: beside the YAML file that names it, absolute, or below
    ``data.root`` (below the working directory without one). A ``.gz`` of that name is found too; a
    folder stands for its Parquet or Arrow files. With ``hub``: the name of its split. None: the
    data set has no training split."""
    dev: _File = None
    """Path of the evaluation file, or split of ``hub``, as for ``train``. None: the data set has no
    dev split but that of ``dev_fraction``."""
    test: _File = None
    """Path of the test file, or split of ``hub``, as for ``train``. Its labels may be missing; an
    empty one and a number below 0 that is no label are hidden. None: the data set has no test
    split."""
    dev_fraction: float | None = Field(None, gt=0, lt=1)
    """Fraction of the training rows that becomes the dev split, chosen by their text: the same for
    every seed, and equal texts (for spans: all questions about a context) stay together. Without
    effect where ``dev`` names the dev split. None: no rows of ``train``."""
    hub: str | None = None
    """Data set of the Hugging Face hub, such as ``org/name``, or a folder that ``datasets`` loads.
    ``train``, ``dev`` and ``test`` then name its splits, by default ``train`` and ``validation``.
    None: the data set is in files."""
    configuration: str | None = None
    """Configuration (subset) of ``hub``. None: its only one."""
    revision: str | None = None
    """Revision of ``hub``: a branch, tag or commit. None: the newest. A commit makes a run
    repeatable."""
    text: _Columns = ()
    """Columns of the text, by name, or by number from 0 in a ``glue_tsv`` without a header; one
    needs no list. ``classify``, ``multi`` and ``regress``: one or two. ``choose``: the question,
    then one column for each choice. ``tag``: the column of the words, the first by default."""
    label: str | int | tuple[str, ...] | None = "label"
    """Column of the label, by name or number. ``tag``: the last column by default. ``choose``: the
    number of the right choice from 0, or its letter. ``multi``: a column of lists, or of texts with
    a ``separator``; or several columns, one a label, of 0 and 1. None: the files have no labels."""
    separator: str | None = Field(None, min_length=1)
    """Text between the labels of a cell of ``multi``, such as ``;``; spaces around a label are no
    part of it. None: the cells are lists, or JSON of lists."""
    id: str | int | None = None
    """Column of a unique identifier, which predictions repeat. None: rows are numbered from 0."""
    labels: tuple[str, ...] = ()
    """All labels of ``classify``, ``multi`` and ``tag``, in the order of the logits; ``tag`` uses
    the IOB2 scheme. Empty: those of ``task``, the columns of 0 and 1, or none where the kind has no
    labels. Where they are missing, the error lists those of the file."""
    label_map: dict[str, str] = Field({})
    """Map from a value of the label column to one of ``labels``, of ``classify``, ``multi`` and
    ``tag``. Empty: the file holds the labels themselves."""
    head: Annotated[str, name_of("head")] | None = None
    """Head of your own, ``package.module:Class``, of ``classify``, ``multi`` and ``regress``: a
    ``torch.nn.Module`` built with the encoder's width and the number of labels, from states
    ``[B, L, H]`` and the attention mask to logits. Plain transformers loads only the encoder of
    such a model. None: that of transformers."""
    low: float = 0.0
    """Smallest number of ``regress``; a label below it is an error. Training computes in units of
    the range from ``low`` to ``high``; predictions are in the labels' own numbers, not clipped."""
    high: float = 1.0
    """Largest number of ``regress``; a label above it is an error."""
    metrics: tuple[str, ...] | None = None
    """Metrics to compute, the principal one first: ``accuracy``, ``f1`` (of the second of two
    labels, as in GLUE), ``f1_of_LABEL``, ``macro_f1`` (mean over labels), ``matthews``, ``pearson``
    or ``spearman`` of labels and numbers, ``exact`` and ``f1`` of spans, by SQuAD's script, or by
    MLQA's for a language (``exact_zh``, ``f1_zh``; ar, de, en, es, hi, ja, th, vi, zh; figures keep
    the names ``exact`` and ``f1``), ``entity_f1``,
    ``entity_precision`` and ``entity_recall`` of tags; ``micro_f1``, ``macro_f1``, ``samples_f1``
    (mean over rows), ``subset_accuracy`` (all labels of a row), ``lrap`` (label ranking average
    precision) and ``f1_of_LABEL`` of ``multi``. Of ``classify`` and ``regress`` also a function of
    your own, ``package.module:name``. None: the usual ones of the kind."""

    @field_validator("labels")
    @classmethod
    def _each_once(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        plain = [plain_label(label) for label in labels]
        if alike := [label for label in labels if plain.count(plain_label(label)) > 1]:
            raise ValueError(
                f"{', '.join(map(repr, alike))}: one label, as case, spaces and hyphens tell none "
                "apart\n    allowed: every label once"
            )
        return labels

    @model_validator(mode="after")
    def _consistent(self) -> CustomDataset:
        if not (self.train or self.dev or self.test or self.hub):
            return self  # some keys of a recorded entry; alone it is no data set
        unknown = set(self.label_map.values()) - {*self.labels}
        has_labels = self.kind in ("classify", "multi", "tag")
        columns = self.label if isinstance(self.label, tuple) else ()
        of_texts = self.kind in ("classify", "multi", "regress")
        mistakes = {
            f"layout = {self.layout}: hub has rows already\n    fix: leave layout out": (
                self.hub and self.layout and is_own(self.layout)
            ),
            "configuration and revision are those of hub, which is not given": (
                not self.hub and (self.configuration or self.revision)
            ),
            "dev_fraction takes the dev split from train: give train": (
                self.dev_fraction is not None and not (self.train or self.hub)
            ),
            f"labels = {list(self.labels)}: {TOO_FEW_LABELS}": (
                self.task is None and has_labels and len(self.labels) == 1
            ),
            "text names the question and at least two choices": (
                self.kind == "choose" and len(self.text) < 3
            ),
            f"text = {list(self.text)}: one or two columns": (
                of_texts and len(self.text) not in (1, 2)
            ),
            f"head = {self.head}: kind {self.kind} has none of your own": (
                self.head and not of_texts
            ),
            "several label columns, or a separator, are of kind multi": (
                self.kind != "multi" and (columns or self.separator is not None)
            ),
            f"label = {list(columns)}: at least two columns, each once, without a separator": (
                isinstance(self.label, tuple)
                and (len({*columns}) < max(2, len(columns)) or self.separator is not None)
            ),
            f"low = {self.low}, high = {self.high}: {_UNKNOWN} stands for a missing label\n"
            "    fix: add one number, such as 1000, to all labels, to low and to high": (
                self.kind == "regress" and self.low <= _UNKNOWN <= self.high
            ),
            f"label_map names {', '.join(map(repr, sorted(unknown)))}, labels are "
            f"{list(self.labels)}": self.labels and unknown,
        }
        for mistake, made in mistakes.items():
            if made:
                raise ValueError(mistake)
        self.check_metrics()
        return self

    def check_metrics(self) -> None:
        """Raise ``ValueError`` for metrics that the kind and the labels do not have."""
        known = _METRICS[self.kind]
        has_classes = self.kind in ("classify", "multi")
        if has_classes:
            known = (*known, *(f"{_F1_OF}{label}" for label in self._named_labels))
        if self.kind == "classify" and len(self.labels) > 2:
            known = tuple(metric for metric in known if metric != "f1")  # of which label?
        last = [m.rpartition(":")[2] if is_own(m) else m for m in self.metrics or ()]
        if len({*last}) < len(last):
            raise ValueError(f"metrics = {list(self.metrics or ())}: results would share a name")
        if self.kind == "span" and len({m.partition("_")[2] for m in self.metrics or ()}) > 1:
            raise ValueError(f"metrics = {list(self.metrics or ())}: of several languages")
        for metric in self.metrics or ():
            of_another = has_classes and self.task is not None and metric.startswith(_F1_OF)
            own = is_own(metric) and self.kind in ("classify", "regress")
            if metric not in known and not of_another and not own:
                raise ValueError(
                    f"metrics: kind {self.kind} has no metric {metric}"
                    f"{did_you_mean(metric, known)}\n    allowed: {', '.join(known)}"
                )

    def dataset(self, name: str) -> Dataset:
        """Return the entry that the catalogue would hold for this data set."""
        text, label = self.text, self.label
        if self.kind == "tag" and not text:
            text, label = (0,), -1 if label == "label" else label
        train, dev = self.train, self.dev
        if self.hub and not (train or dev or self.test):
            train, dev = "train", "validation"
        dev_fraction = None if self.dev else self.dev_fraction
        if dev_fraction is not None:
            dev = train = train or "train"
        splits: dict[str, Any] = {"train": train, "dev": dev, "test": self.test}
        splits = {split: name for split, name in splits.items() if name}
        reader = self.layout if self.layout and is_own(self.layout) else None
        metrics, language = self.metrics or (), ""
        if self.kind == "span" and metrics:
            language = metrics[0].partition("_")[2]  # ``zh`` of ``f1_zh``
            metrics = tuple(metric.partition("_")[0] for metric in metrics)
        hub = Hub(self.hub, self.configuration, None, splits, self.revision) if self.hub else None
        return Dataset(
            name,
            task=self.task_name(name),
            layout=(not reader and self.layout) or _LAYOUTS.get(self.kind, "table"),
            folder="",
            columns=Columns(text, label, self.id, self.separator),
            splits=splits,
            metrics=metrics or _METRICS[self.kind][: _USUAL.get(self.kind)],
            hub=hub,
            label_map=self.label_map,
            dev_fraction=dev_fraction,
            reader=reader,
            language=language,
        )

    @property
    def _named_labels(self) -> tuple[str, ...]:
        """The labels; of columns of 0 and 1, those that the columns stand for, unless given."""
        columns = self.label if isinstance(self.label, tuple) else ()
        return self.labels or tuple(self.label_map.get(column, column) for column in columns)

    def task_name(self, name: str) -> str:
        """Return the name of the task, whose head the data set trains."""
        return self.task or (SPANS if self.kind == "span" else name)

    def new_task(self, name: str) -> Task:
        """Return the new task of a data set that shares no task of the catalogue."""
        of_kind: dict[str, tuple[Any, ...]] = {"regress": (self.low, self.high), "span": ()}
        of_kind["choose"] = (len(self.text) - 1,)
        kind = KINDS[self.kind](*of_kind.get(self.kind, (self._named_labels,)))
        return Task(name, kind, self.head)
