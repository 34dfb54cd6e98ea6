"""Entries of data sets of sentences, pairs and tagged words. Add one here."""

from __future__ import annotations

from typing import Any

from road_ray.data.task_and_dataset import Columns, Dataset, Hub, Splits

_PAIR_LABELS = {"0": "different", "1": "same"}
_TWO = ("sentence1", "sentence2")
_PREMISE = ("premise", "hypothesis")
_SPLITS = Splits(test="test.tsv")
_QNLI = Columns(("question", "sentence"), label="label", id="index")


def _glue(
    name: str,
    task: str,
    folder: str,
    columns: Columns,
    *,
    splits: Splits = _SPLITS,
    hub_text: tuple[str | int, ...] = (),
    hub: Hub | None = None,
    **options: Any,
) -> Dataset:
    """Return a data set of the GLUE benchmark, whose columns of text on the hub are ``hub_text``,
    unless they have the names of the files.
    """
    on_hub = Columns(hub_text or columns.text, label="label", id="idx")
    return Dataset(
        name,
        task=task,
        layout="glue_tsv",
        folder=f"glue/{folder}",
        columns=columns,
        splits=splits,
        hub=hub or Hub("nyu-mll/glue", name, columns=on_hub),
        **options,
    )


def _mnli(name: str, kind: str, train: str | None) -> Dataset:
    return _glue(
        name,
        "nli",
        "MNLI",
        Columns(_TWO, label="gold_label", id="index"),
        test_columns=Columns(_TWO, id="index"),
        splits=Splits(train=train, dev=f"dev_{kind}.tsv", test=f"test_{kind}.tsv"),
        hub=Hub(
            "nyu-mll/glue",
            "mnli",
            splits={"dev": f"validation_{kind}", "test": f"test_{kind}"},
            columns=Columns(_PREMISE, label="label", id="idx"),
        ),
    )


def _adv_glue(
    name: str, task: str, key: str, text: tuple[str, ...], labels: tuple[str, ...]
) -> Dataset:
    """Return an adversarial set, for evaluation only, with the task of the original set."""
    return Dataset(
        f"advglue_{name}",
        task=task,
        layout="adv_glue",
        folder="advglue",
        columns=Columns(text, label="label", id=key),
        splits=Splits(train=None, dev="dev.json|dev_ann.json"),
        hub=Hub("AI-Secure/adv_glue", f"adv_{name}", columns=Columns(text, "label", "idx")),
        label_map={str(number): label for number, label in enumerate(labels)},
    )


_THREE = ("entailment", "neutral", "contradiction")
_ENTAILS = ("entailment", "not_entailment")

SENTENCES = (
    _glue(
        "cola",
        "acceptability",
        "CoLA",
        Columns((3,), label=1),
        hub_text=("sentence",),
        test_columns=Columns(("sentence",), id="index"),
        metrics=("matthews",),
        label_map={"0": "unacceptable", "1": "acceptable"},
    ),
    _glue(
        "sst2",
        "sentiment",
        "SST-2",
        Columns(("sentence",), label="label"),
        test_columns=Columns(("sentence",), id="index"),
        label_map={"0": "negative", "1": "positive"},
    ),
    _glue(
        "mrpc",
        "paraphrase",
        "MRPC",
        Columns(("#1 String", "#2 String"), label="Quality"),
        hub_text=_TWO,
        test_columns=Columns(("#1 String", "#2 String"), id="index"),
        metrics=("f1", "accuracy"),
        label_map=_PAIR_LABELS,
    ),
    _glue(
        "stsb",
        "similarity",
        "STS-B",
        Columns(_TWO, label="score", id="index"),
        metrics=("pearson", "spearman"),
    ),
    _glue(
        "qqp",
        "paraphrase",
        "QQP",
        Columns(("question1", "question2"), label="is_duplicate", id="id"),
        metrics=("f1", "accuracy"),
        label_map=_PAIR_LABELS,
    ),
    _mnli("mnli", "matched", "train.tsv"),
    _mnli("mnli_mismatched", "mismatched", None),
    _glue("qnli", "qnli", "QNLI", _QNLI),
    _glue("rte", "rte", "RTE", Columns(_TWO, label="label", id="index")),
    _glue(
        "wnli",
        "coreference",
        "WNLI",
        Columns(_TWO, label="label", id="index"),
        label_map={"0": "not_entailment", "1": "entailment"},
    ),
    _glue(  # the diagnostic set: predictions only
        "ax",
        "nli",
        "diagnostic",
        Columns(_TWO, id="index"),
        hub_text=_PREMISE,
        splits=Splits(train=None, dev=None, test="diagnostic.tsv"),
        metrics=("matthews",),
    ),
    Dataset(
        "snli",
        task="nli",
        layout="glue_tsv",
        folder="snli",
        columns=Columns(_TWO, label="gold_label"),
        splits=Splits(
            train="train.tsv|snli_1.0_train.txt",
            dev="dev.tsv|snli_1.0_dev.txt",
            test="test.tsv|snli_1.0_test.txt",
        ),
        hub=Hub("stanfordnlp/snli", columns=Columns(_PREMISE, label="label")),
    ),
    Dataset(
        "amazon",
        task="rating",
        layout="table",
        folder="amazon",
        columns=Columns(("title", "text"), label="stars"),
        splits=Splits(train="train.jsonl", dev="dev.jsonl"),
    ),
    Dataset(
        "boolq",
        task="boolq",
        layout="table",
        folder="boolq",
        columns=Columns(("question", "passage"), label="label|answer"),
        splits=Splits(train="train.jsonl", dev="dev.jsonl|val.jsonl", test="test.jsonl"),
        hub=Hub("google/boolq"),
        label_map={"false": "no", "true": "yes"},
    ),
    Dataset(
        "conll2003",
        task="ner",
        layout="conll",
        folder="conll2003",
        columns=Columns((0,), label=-1),
        splits=Splits(
            train="eng.train|train.txt", dev="eng.testa|valid.txt", test="eng.testb|test.txt"
        ),
        metrics=("entity_f1",),
        hub=Hub("lhoestq/conll2003"),
    ),
    Dataset(  # paraphrases of many shared words; a test of robustness for the head of QQP
        "paws",
        task="paraphrase",
        layout="glue_tsv",
        folder="paws",
        columns=Columns(_TWO, label="label", id="id"),
        splits=Splits(train="train.tsv", dev="dev.tsv|dev_and_test.tsv", test="test.tsv"),
        hub=Hub("google-research-datasets/paws", "labeled_final"),
        label_map=_PAIR_LABELS,
    ),
    _adv_glue("sst2", "sentiment", "sst2", ("sentence",), ("negative", "positive")),
    _adv_glue("qqp", "paraphrase", "qqp", ("question1", "question2"), ("different", "same")),
    _adv_glue("mnli", "nli", "mnli", _PREMISE, _THREE),
    _adv_glue("mnli_mismatched", "nli", "mnli-mm", _PREMISE, _THREE),
    _adv_glue("qnli", "qnli", "qnli", ("question", "sentence"), _ENTAILS),
    _adv_glue("rte", "rte", "rte", _TWO, _ENTAILS),
)
