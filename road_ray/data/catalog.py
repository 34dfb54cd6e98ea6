"""The catalogue: every task and every data set, one entry each. Add a data set here."""

from __future__ import annotations

import difflib

from road_ray.data.specs import Choose, Classify, Columns, Dataset, Regress, Span, Splits, Tag, Task
from road_ray.errors import ConfigError

_ENTITIES = ("PER", "ORG", "LOC", "MISC")

_TASKS = (
    Task("mrc", Span()),
    # ELECTRA's order of the three labels (google electra,
    # finetune/classification/classification_tasks.py).
    Task("nli", Classify(("contradiction", "entailment", "neutral"))),
    Task("rte", Classify(("entailment", "not_entailment"))),
    Task("paraphrase", Classify(("different", "same"))),
    Task("sentiment", Classify(("negative", "positive"))),
    Task("similarity", Regress(0.0, 5.0)),
    Task("ner", Tag(("O", *(f"{mark}-{kind}" for kind in _ENTITIES for mark in "BI")))),
    Task("commonsense", Choose(5)),
    Task("completion", Choose(4)),
)

_SQUAD_METRICS = ("exact", "f1")
_PAIR_LABELS = {"0": "different", "1": "same"}

_DATASETS = (
    Dataset(
        "sst2",
        task="sentiment",
        layout="glue_tsv",
        folder="glue/SST-2",
        columns=Columns(("sentence",), label="label"),
        splits=Splits(test="test.tsv"),
        hub=("nyu-mll/glue", "sst2"),
        label_map={"0": "negative", "1": "positive"},
    ),
    Dataset(
        "qqp",
        task="paraphrase",
        layout="glue_tsv",
        folder="glue/QQP",
        columns=Columns(("question1", "question2"), label="is_duplicate", id="id"),
        metrics=("accuracy", "f1"),
        hub=("nyu-mll/glue", "qqp"),
        label_map=_PAIR_LABELS,
    ),
    Dataset(
        "mrpc",
        task="paraphrase",
        layout="glue_tsv",
        folder="glue/MRPC",
        columns=Columns(("#1 String", "#2 String"), label="Quality"),
        splits=Splits(test="test.tsv"),
        metrics=("accuracy", "f1"),
        hub=("nyu-mll/glue", "mrpc"),
        label_map=_PAIR_LABELS,
    ),
    Dataset(
        "mnli",
        task="nli",
        layout="glue_tsv",
        folder="glue/MNLI",
        columns=Columns(("sentence1", "sentence2"), label="gold_label", id="index"),
        splits=Splits(dev=("dev_matched.tsv",)),
        hub=("nyu-mll/glue", "mnli"),
    ),
    Dataset(
        "snli",
        task="nli",
        layout="glue_tsv",
        folder="snli",
        columns=Columns(("sentence1", "sentence2"), label="gold_label"),
        hub=("stanfordnlp/snli", None),
    ),
    Dataset(
        "rte",
        task="rte",
        layout="glue_tsv",
        folder="glue/RTE",
        columns=Columns(("sentence1", "sentence2"), label="label", id="index"),
        splits=Splits(test="test.tsv"),
        hub=("nyu-mll/glue", "rte"),
    ),
    Dataset(
        "stsb",
        task="similarity",
        layout="glue_tsv",
        folder="glue/STS-B",
        columns=Columns(("sentence1", "sentence2"), label="score", id="index"),
        splits=Splits(test="test.tsv"),
        metrics=("pearson", "spearman"),
        hub=("nyu-mll/glue", "stsb"),
    ),
    Dataset(
        "squad_v1",
        task="mrc",
        layout="squad_json",
        folder="squad",
        splits=Splits(train="train-v1.1.json", dev=("dev-v1.1.json",)),
        metrics=_SQUAD_METRICS,
        hub=("rajpurkar/squad", None),
    ),
    Dataset(
        "squad_v2",
        task="mrc",
        layout="squad_json",
        folder="squad",
        splits=Splits(train="train-v2.0.json", dev=("dev-v2.0.json",)),
        metrics=_SQUAD_METRICS,
        hub=("rajpurkar/squad_v2", None),
    ),
    Dataset(
        "commonsenseqa",
        task="commonsense",
        layout="commonsenseqa",
        folder="commonsenseqa",
        columns=Columns((), id="id"),
        splits=Splits(train="train.jsonl", dev=("dev.jsonl",), test="test.jsonl"),
        hub=("tau/commonsense_qa", None),
    ),
    Dataset(
        "swag",
        task="completion",
        layout="swag",
        folder="swag",
        splits=Splits(train="train.csv", dev=("val.csv",), test="test.csv"),
        hub=("allenai/swag", "regular"),
    ),
    Dataset(
        "hellaswag",
        task="completion",
        layout="hellaswag",
        folder="hellaswag",
        splits=Splits(
            train="hellaswag_train.jsonl", dev=("hellaswag_val.jsonl",), test="hellaswag_test.jsonl"
        ),
        hub=("Rowan/hellaswag", None),
    ),
    Dataset(
        "conll2003",
        task="ner",
        layout="conll",
        folder="conll2003",
        columns=Columns((0,), label=-1),
        splits=Splits(train="eng.train", dev=("eng.testa",), test="eng.testb"),
        metrics=("entity_f1",),
    ),
    Dataset(  # out of domain: evaluate only
        "newsqa",
        task="mrc",
        layout="squad_json",
        folder="newsqa",
        splits=Splits(train=None, dev=("dev.json",)),
        metrics=_SQUAD_METRICS,
    ),
)

TASKS: dict[str, Task] = {task.name: task for task in _TASKS}
DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _DATASETS}


def dataset(name: str) -> Dataset:
    """The catalogue entry ``name``. Raises ``ConfigError`` naming the nearest entry."""
    if name not in DATASETS:
        raise ConfigError(_unknown("data set", name, DATASETS))
    return DATASETS[name]


def task(name: str) -> Task:
    """The task of that name, or the task of the data set of that name."""
    if name in TASKS:
        return TASKS[name]
    if name in DATASETS:
        return TASKS[DATASETS[name].task]
    raise ConfigError(_unknown("task", name, [*TASKS, *DATASETS]))


def _unknown(what: str, name: str, known: object) -> str:
    names = sorted(known)  # type: ignore[call-overload]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown {what} {name!r}{hint}\n  known: {', '.join(names)}"
