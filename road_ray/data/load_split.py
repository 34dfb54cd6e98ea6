"""Load a split of a data set from a directory, the embedded miniature world or the hub."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from road_ray.data import catalog, miniature
from road_ray.data.config import HUB, MINIATURE, SourceConfig
from road_ray.data.encode_examples import (
    LEAST_EXAMPLES,
    cache_key,
    check_labels,
    encode,
    load_or_encode,
)
from road_ray.data.examples import Example, Features, TagExample, TextExample
from road_ray.data.readers.conll import UNTYPED
from road_ray.data.readers.custom_dataset import TOO_FEW_LABELS, CustomDataset
from road_ray.data.readers.layouts import READER, found_paths, read_split
from road_ray.data.task_and_dataset import (
    KINDS,
    SPECIAL_HEADS,
    Classify,
    Dataset,
    MultiLabel,
    Regress,
    Span,
    Tag,
    Task,
    below_zero,
    listed_labels,
    number_in,
    own_metric,
    plain_label,
)
from road_ray.data.tokenizer import load_tokenizer
from road_ray.data.training_rows import (
    REST,
    corrected,
    held_out,
    read_unlabelled,
    row_limits,
    unlabelled_file,
)
from road_ray.errors import ConfigError, did_you_mean, nearest, shorten
from road_ray.system import files as places
from road_ray.system.own_names import is_own, named_object

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# Pairs without an order, which are learnt both ways round: ``double_unordered`` of
# google-research/electra.
_UNORDERED = ("mrpc", "stsb")
_MOST_LABELS = 200  # more different values are numbers, ids or texts


@dataclass(frozen=True)
class Split:
    """One split of one data set, read and encoded."""

    dataset: Dataset
    task: Task
    examples: Sequence[Example]
    features: Features


def resolve_root(root: str | None) -> Path | None:
    """Return the data directory, None for the hub. Raises ``ConfigError`` if it does not exist."""
    name = root or os.environ.get("ROAD_DATA") or HUB
    if name == HUB:
        return None
    if name == MINIATURE:
        return miniature.cached()
    where = "data.root" if root else "ROAD_DATA"
    place = places.path_of(name, where)
    if not place.is_dir():
        raise ConfigError(
            f"{where} = {name}: no such directory\n"
            "  allowed: a directory in the published layouts, `miniature` or `hub`\n"
            f"  fix: {where}=miniature tries the command without files of your own"
        )
    return place


def check_own_names(entry: Dataset) -> None:
    """Raise ``ConfigError`` for a reader or metric of the user's own that this process lacks."""
    if entry.reader is not None:
        named_object("layout", entry.reader, {}, READER)
    for metric in filter(is_own, entry.metrics):
        own_metric(metric)


def find_dataset(name: str, source: SourceConfig) -> tuple[Dataset, Task]:
    """Return the data set of that name, custom or of the catalogue, and its task."""
    custom = source.sets.get(name)
    if custom is not None and name in catalog.DATASETS:
        raise ConfigError(
            f"data.sets.{name}: the catalogue has a data set of that name\n  fix: choose another"
        )
    if custom is not None:
        if not (custom.train or custom.dev or custom.test or custom.hub):
            raise ConfigError(
                f"data.sets.{name}: a data set without files"
                f"{did_you_mean(name, {*catalog.DATASETS, *source.sets} - {name})}\n"
                "  fix: give train, dev or test, or hub"
            )
        dataset, task = _custom_entry(name, source.sets)
        if isinstance(task.kind, Classify | MultiLabel | Tag) and not task.kind.labels:
            raise _labels_missing(dataset, custom.kind, root_of(name, source))
    elif name not in catalog.DATASETS and (near := nearest(name, source.sets)):
        raise ConfigError(f"unknown data set {name!r}; did you mean {near!r}?")
    else:
        dataset = catalog.dataset(name)
        task = catalog.TASKS[dataset.task]
    for head in SPECIAL_HEADS:
        plain = type(task.kind) is head.replaces and task.head is None
        fits = plain and head.num_texts in (None, len(dataset.columns.text))
        if fits and getattr(source, head.key) == head.value:
            other = Task(f"{task.name}_{head.value}", head.kind(**vars(task.kind)))
            return replace(dataset, task=other.name), other  # another head is another task
    return dataset, task


def _custom_entry(name: str, sets: Mapping[str, CustomDataset]) -> tuple[Dataset, Task]:
    """Return the entry of the custom data set ``name`` and its task, whose labels may be empty.

    Sets with one ``task`` share its head. Labels are matched by name, in the order of the
    catalogue, or of the first set that has labels. Raises ``ConfigError`` for sets that do not fit
    together.
    """
    custom = sets[name]
    shared = custom.task_name(name)
    peers = {other: peer for other, peer in sets.items() if peer.task_name(other) == shared}
    if shared in catalog.TASKS:
        task = catalog.TASKS[shared]
        _check_fit(name, custom, task, f"task {shared}")
    else:
        if len(peers) == 1 and custom.task is not None and nearest(shared, catalog.TASKS, 0.8):
            catalog.task(shared)  # raises, with the nearest name
        first = next((other for other, peer in peers.items() if peer.labels), next(iter(peers)))
        task = peers[first].new_task(shared)
        if first != name:
            _check_fit(name, custom, task, f"data.sets.{first} of the same task {shared}")
    kind, dataset = task.kind, custom.dataset(name)
    if isinstance(kind, Regress):
        return replace(dataset, negative_labels=kind.low < 0), task
    if not isinstance(kind, Classify | MultiLabel):
        return dataset, task
    if kind.labels:
        try:
            custom.model_copy(update={"task": None, "labels": kind.labels}).check_metrics()
        except ValueError as error:
            raise ConfigError(f"data.sets.{name}: {error}") from error
    known = (*kind.labels, *custom.labels, *custom.label_map)
    names = {plain_label(label): label for label in kind.labels}
    mapped = {v: names.get(plain_label(label), label) for v, label in custom.label_map.items()}
    label_map = {label: label for label in kind.labels} | mapped
    return replace(dataset, negative_labels=any(map(below_zero, known)), label_map=label_map), task


def _check_fit(name: str, custom: CustomDataset, task: Task, other: str) -> None:
    """Raise ``ConfigError`` unless a data set has the kind, the head and the labels of a task."""
    labels = custom.labels or tuple(dict.fromkeys(custom.label_map.values()))
    own = custom.model_copy(update={"labels": labels}).new_task(task.name)
    fits = isinstance(task.kind, type(own.kind)) and own.head == task.head
    if fits and isinstance(task.kind, Classify | MultiLabel | Tag):
        plain = str if isinstance(task.kind, Tag) else plain_label  # tags are read as they are
        named, known = set(map(plain, labels)), set(map(plain, task.kind.labels))
        fits = named == known or (not custom.labels and named <= known)
    elif fits:
        fits = task.name in catalog.TASKS or own.kind == task.kind
    if not fits:
        raise ConfigError(
            f"data.sets.{name} has {_described(own)}\n  {other} has {_described(task)}\n"
            "  allowed: the same kind, head, range and labels, in any order; label_map maps values "
            "of the file to them"
        )


def _described(task: Task) -> str:
    """Return kind, labels or range, and head of a task by the names of their keys."""
    kind = next(name for name, known in KINDS.items() if isinstance(task.kind, known))
    keys = {"kind": kind, **vars(task.kind), "head": task.head}
    return ", ".join(f"{key}: {value}" for key, value in keys.items() if value is not None)


def _labels_missing(dataset: Dataset, kind: str, root: Path | None) -> ConfigError:
    """Return the error of a data set without labels, with those of its file ready to paste."""
    split, file = next(iter(dataset.splits.items()))
    problem = f"data.sets.{dataset.name}: labels are not given"
    counts = label_counts(read_examples(replace(dataset, dev_fraction=None), split, root), kind)
    where = f"{file} has"
    if not 2 <= len(counts) <= _MOST_LABELS:
        few = ", ".join(map(repr, list(counts)[:3]))
        return ConfigError(
            f"{problem}: {TOO_FEW_LABELS}\n  {where} {len(counts):,} different values in column "
            f"{dataset.columns.label!r}: {few}\n  fix: name the column of the label"
        )
    listed = ", ".join(f"{label} ({count:,})" for label, count in counts.most_common())
    labels = labels_in(counts, kind)
    return ConfigError(
        f"{problem}\n  {where}: {shorten(listed, 300)}\n  fix: below data.sets.{dataset.name} write"
        f"\n    labels: {json.dumps(labels, ensure_ascii=False)}"
    )


def root_of(name: str, source: SourceConfig) -> Path | None:
    """Return the directory that the file names of a data set are relative to; None for the hub."""
    custom = source.sets.get(name)
    if custom is not None and custom.hub is not None:
        return None
    root = resolve_root(source.root)
    return Path.cwd() if root is None and custom is not None else root


def has_files(name: str, split: str, source: SourceConfig) -> bool:
    """Return True if a data set has the files of a split, or comes from the hub."""
    root = root_of(name, source)
    entry, _ = find_dataset(name, source)
    return split in entry.splits and (
        root is None or None not in found_paths(entry, root, split).values()
    )


def read_examples(
    entry: Dataset, split: str, root: Path | None, *, unlabelled: bool = False
) -> list[Example]:
    """Return the examples of a split below ``root``, or from the hub; see ``read_split``."""
    if entry.name not in catalog.DATASETS:
        check_own_names(entry)
    read = read_split(entry, root, split, unlabelled=unlabelled)
    if entry.dev_fraction is None or split == "test":
        return read
    held = held_out(read, entry.dev_fraction, entry.name)
    return [e for e, is_dev in zip(read, held, strict=True) if is_dev == (split == "dev")]


def training_tokenizer(
    path: Path | str, names: Iterable[str], source: SourceConfig
) -> PreTrainedTokenizerFast:
    """Return the tokenizer at ``path`` as a model is trained with it on these data sets: for tagged
    words, a byte-level one reads a word alone as within a text, with a space before it, which is
    saved with it.

    Source: transformers, run_ner.py, ``add_prefix_space=True``.
    """
    tokenizer: Any = load_tokenizer(path)
    if any(isinstance(find_dataset(name, source)[1].kind, Tag) for name in names):
        whole = tokenizer.backend_tokenizer.pre_tokenizer
        for part in whole if type(whole).__name__ == "Sequence" else [whole]:
            if type(part).__name__ == "ByteLevel":
                part.add_prefix_space = True
                tokenizer.add_prefix_space = tokenizer.init_kwargs["add_prefix_space"] = True
    return tokenizer


def tasks_of(name: str, source: SourceConfig) -> list[Task]:
    """Return all tasks that learn from a data set, its own first."""
    dataset, task = find_dataset(name, source)
    return [task, *(catalog.TASKS[other] for other in dataset.also)]


def load_split(
    name: str,
    split: str,
    source: SourceConfig,
    tokenizer: PreTrainedTokenizerFast,
    *,
    evaluated: bool = False,
    keep: Callable[[Example], bool] | None = None,
    unlabelled: Sequence[str] = (),
) -> Split:
    """Return ``train``, ``dev`` or ``test`` of a data set, encoded for its task.

    ``source.max_rows`` limits training rows and ``max_judged_rows`` all others, after a shuffle.
    ``evaluated`` treats the split as one to evaluate, also the train split. ``keep`` then
    filters examples. The rows of the files and data sets ``unlabelled`` follow without labels.
    """
    entry, task = find_dataset(name, source)
    examples: Sequence[Example] = read_examples(entry, split, root_of(name, source))
    is_training = split == "train" and not evaluated
    most = source.max_rows if is_training else source.max_judged_rows
    total = len(examples)
    if most is not None and most < total:
        check_labels(examples, entry, task)  # of all rows: a longer run fails no later
        examples = [examples[index] for index in np.sort(row_order(total)[:most])]
    if is_training and source.label_noise:
        examples = _with_noise(examples, row_order(total)[:most], entry, task, source.label_noise)
    if is_training and source.corrections is not None:
        examples = corrected(examples, source.corrections, entry, task)
    if keep is not None:
        examples = [example for example in examples if keep(example)]
    if is_training and name in _UNORDERED:
        pairs = [e for e in examples if isinstance(e, TextExample)]
        examples = [*pairs, *(replace(e, id=f"{e.id} turned", texts=e.texts[::-1]) for e in pairs)]
    if unlabelled:
        examples = [*examples, *read_unlabelled_rows(unlabelled, name, source)]
    options: dict[str, Any] = {"limits": row_limits(source), "train": is_training}
    make = partial(encode, examples, entry, task, tokenizer, **options)
    if len(examples) >= LEAST_EXAMPLES:
        key = cache_key(examples, tokenizer, entry=entry, task=task, **options)
        make = partial(load_or_encode, places.cache_home() / "features", key, make)
    return Split(entry, task, examples, make())


def row_order(count: int) -> NDArray[np.int64]:
    """Return the order of ``count`` examples of which ``max_rows`` takes the first."""
    return np.random.default_rng((0, 4)).permutation(count)


def _with_noise(
    examples: Sequence[Example], order: NDArray[np.int64], entry: Dataset, task: Task, share: float
) -> list[Example]:
    """Return the examples with a share of the labels replaced by another class, each equally
    likely. ``order`` has the number of each example in the whole split, in the order in which
    ``max_rows`` takes them.
    """
    if not isinstance(task.kind, Classify):
        raise ConfigError(
            f"data.label_noise = {share}: {entry.name} has no classes\n"
            "  allowed: data sets with one label a text or pair"
        )
    rng = np.random.default_rng((round(1e6 * share), 6))
    flipped = set(rng.permutation(order)[: round(share * len(order))].tolist())
    noisy = list(examples)
    for position, number in enumerate(np.sort(order).tolist()):
        example = examples[position]
        if number in flipped and isinstance(example, TextExample):
            others = [other for other in task.kind.labels if other != example.label]
            noisy[position] = replace(example, label=others[rng.integers(len(others))])
    return noisy


def row_features(
    split: Split, tokenizer: PreTrainedTokenizerFast, source: SourceConfig
) -> Features:
    """Return the features of a split with the characters of every token, which those of training
    rows lack.
    """
    if not isinstance(split.task.kind, Span) or split.features.offsets is not None:
        return split.features
    return encode(split.examples, split.dataset, split.task, tokenizer, row_limits(source))


def read_unlabelled_rows(names: Sequence[str], dataset: str, source: SourceConfig) -> list[Example]:
    """Return the rows of files and of training splits of data sets that follow those of ``dataset``
    without labels. Raises ``ConfigError`` for a name of no rows, and rows of another kind.
    """
    entry, task = find_dataset(dataset, source)
    if names and isinstance(task.kind, Tag):  # learnt by label only
        raise ConfigError(
            f"data.unlabelled with data.dataset = {dataset}: rows of tags cannot be unlabelled\n"
            "  allowed: tasks of classes, numbers, answers and choices"
        )
    found: list[Example] = []
    root = resolve_root(source.root) if names else None
    for name in names:
        file = unlabelled_file(name, root)
        if name == REST:  # beyond ``max_rows``
            examples = read_examples(entry, "train", root_of(entry.name, source))
            first = len(examples) if source.max_rows is None else source.max_rows
            chosen = row_order(len(examples))[first:][: source.max_unlabelled_rows]
            if not len(chosen):
                raise ConfigError(
                    f"data.unlabelled = {REST} with data.max_rows = {source.max_rows}: all "
                    f"{len(examples)} training examples of {entry.name} keep their labels\n"
                    f"  allowed: fewer than {len(examples)}\n"
                    "  fix: lower data.max_rows, or name other rows by data.unlabelled"
                )
            rows = [examples[index] for index in np.sort(chosen)]
        elif file is not None:
            rows = read_unlabelled(file, entry, task)
        elif name in catalog.DATASETS or name in source.sets:
            other, its_task = find_dataset(name, source)
            if type(its_task.kind) is not type(task.kind):
                raise ConfigError(
                    f"data.unlabelled: {name} is of kind {type(its_task.kind).__name__}, "
                    f"{entry.name} of kind {type(task.kind).__name__}\n"
                    "  allowed: data sets of the same kind, and files"
                )
            rows = read_examples(other, "train", root_of(name, source), unlabelled=True)
        else:
            raise ConfigError(
                f"data.unlabelled: {name}: no such file, and no data set of that name\n"
                f"  data.root is {root}\n  allowed: files, data sets of `road data list` or of "
                "data.sets"
            )
        widths = {len(row.texts) for row in rows if isinstance(row, TextExample)}
        if widths and widths != {len(entry.columns.text)}:
            raise ConfigError(
                f"data.unlabelled: {name} has rows of {max(widths)} texts, "
                f"{entry.name} of {len(entry.columns.text)}"
            )
        ids = (f"unlabelled/{name}/{number}" for number in range(len(rows)))  # of no labelled row
        found += [replace(row.unlabelled(), id=id) for row, id in zip(rows, ids, strict=True)]
    return found


def label_counts(examples: Sequence[Example], kind: str = "classify") -> Counter[str]:
    """Return how often each label occurs, sorted by label; numbers by value."""
    counts: Counter[str] = Counter()
    for example in examples:
        if isinstance(example, TextExample) and example.label is not None:
            label, several = example.label, kind == "multi"
            counts.update(listed_labels(label, example.where) if several else [label])
        elif isinstance(example, TagExample):
            counts.update(example.tags or ())
    return Counter({label: counts[label] for label in sorted_labels(counts)})


def sorted_labels(labels: Iterable[str]) -> list[str]:
    """Return the labels sorted: numbers by value, then texts."""
    return sorted(labels, key=lambda name: (number_in(name) is None, number_in(name) or 0, name))


def labels_in(counts: Counter[str], kind: str) -> list[str]:
    """Return the labels of a data set, each in its most frequent spelling, as the others are read
    too; of tags those of an IOB2 scheme with their entity types.
    """
    if kind == "tag":
        types = sorted({tag[2:] or UNTYPED for tag in counts if tag != "O"})
        return ["O", *(f"{mark}-{of}" for of in types for mark in "BI")]
    spelled = {plain_label(value): value.strip() for value, _ in counts.most_common()[::-1]}
    return sorted_labels(spelled.values())
