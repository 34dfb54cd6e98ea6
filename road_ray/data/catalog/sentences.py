"""Entries of data sets of sentences, pairs and tagged words. Add one here."""

from __future__ import annotations

from typing import Any

from road_ray.data.task_and_dataset import Columns, Dataset, Hub, Splits

_PAIR_LABELS = {"0": "different", "1": "same"}
_TWO = ("sentence1", "sentence2")
_PREMISE = ("premise", "hypothesis")
_SENTENCE = Columns(("sentence",), "label")
_PAIR = Columns(_TWO, "label", "index")
_SPLITS = Splits(test="test.tsv")


def _glue(
    name: str,
    task: str,
    folder: str,
    columns: Columns = _PAIR,
    *,
    test_text: tuple[str | int, ...] = (),
    splits: Splits = _SPLITS,
    hub_text: tuple[str | int, ...] = (),
    hub: Hub | None = None,
    **options: Any,
) -> Dataset:
    """Return a data set of the GLUE benchmark. Its columns of text in the test file are
    ``test_text`` and on the hub ``hub_text``, unless they have the names of the others.
    """
    on_hub = Columns(hub_text or columns.text, label="label", id="idx")
    return Dataset(
        name,
        task=task,
        layout="glue_tsv",
        folder=f"glue/{folder}",
        columns=columns,
        test_columns=Columns(test_text, id="index") if test_text else None,
        splits=splits,
        hub=hub or Hub("nyu-mll/glue", name, columns=on_hub),
        **options,
    )


def _mnli(name: str, kind: str, train: str | None) -> Dataset:
    on_hub = {"dev": f"validation_{kind}", "test": f"test_{kind}"}
    return _glue(
        name, "nli", "MNLI", Columns(_TWO, "gold_label", "index"),
        test_text=_TWO, splits=Splits(train, f"dev_{kind}.tsv", f"test_{kind}.tsv"),
        hub=Hub("nyu-mll/glue", "mnli", None, on_hub, columns=Columns(_PREMISE, "label", "idx")),
    )  # fmt: skip


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

# An entry is read as one row of a table: name, task, folder (of others than GLUE's the layout
# before it), columns, splits.
# fmt: off
SENTENCES = (
    _glue(
        "cola", "acceptability", "CoLA", Columns((3,), 1), hub_text=("sentence",),
        test_text=("sentence",), metrics=("matthews",),
        label_map={"0": "unacceptable", "1": "acceptable"},
    ),
    _glue(
        "sst2", "sentiment", "SST-2", _SENTENCE, test_text=("sentence",),
        label_map={"0": "negative", "1": "positive"},
    ),
    _glue(
        "mrpc", "paraphrase", "MRPC", Columns(("#1 String", "#2 String"), "Quality"),
        test_text=("#1 String", "#2 String"), hub_text=_TWO, metrics=("f1", "accuracy"),
        label_map=_PAIR_LABELS,
    ),
    _glue(
        "stsb", "similarity", "STS-B", Columns(_TWO, "score", "index"),
        metrics=("pearson", "spearman"),
    ),
    _glue(
        "qqp", "paraphrase", "QQP", Columns(("question1", "question2"), "is_duplicate", "id"),
        metrics=("f1", "accuracy"), label_map=_PAIR_LABELS,
    ),
    _mnli("mnli", "matched", "train.tsv"),
    _mnli("mnli_mismatched", "mismatched", None),
    _glue("qnli", "qnli", "QNLI", Columns(("question", "sentence"), "label", "index")),
    _glue("rte", "rte", "RTE"),
    _glue("wnli", "coreference", "WNLI", label_map={"0": "not_entailment", "1": "entailment"}),
    _glue(  # the diagnostic set: predictions only
        "ax", "nli", "diagnostic", Columns(_TWO, id="index"), hub_text=_PREMISE,
        splits=Splits(None, None, "diagnostic.tsv"), metrics=("matthews",),
    ),
    Dataset(
        "snli", "nli", "glue_tsv", "snli", Columns(_TWO, "gold_label"),
        Splits(*(f"{name}.tsv|snli_1.0_{name}.txt" for name in ("train", "dev", "test"))),
        hub=Hub("stanfordnlp/snli", columns=Columns(_PREMISE, "label")),
    ),
    Dataset(
        "amazon", "rating", "table", "amazon", Columns(("title", "text"), "stars"),
        Splits("train.jsonl", "dev.jsonl"),
    ),
    Dataset(
        "boolq", "boolq", "table", "boolq", Columns(("question", "passage"), "label|answer"),
        Splits("train.jsonl", "dev.jsonl|val.jsonl", "test.jsonl"),
        hub=Hub("google/boolq"), label_map={"false": "no", "true": "yes"},
    ),
    Dataset(
        "conll2003", "ner", "conll", "conll2003", Columns((0,), -1),
        Splits("eng.train|train.txt", "eng.testa|valid.txt", "eng.testb|test.txt"),
        metrics=("entity_f1",), hub=Hub("lhoestq/conll2003"),
    ),
    Dataset(  # paraphrases of many shared words; a test of robustness for the head of QQP
        "paws", "paraphrase", "glue_tsv", "paws", Columns(_TWO, "label", "id"),
        Splits("train.tsv", "dev.tsv|dev_and_test.tsv", "test.tsv"),
        hub=Hub("google-research-datasets/paws", "labeled_final"), label_map=_PAIR_LABELS,
    ),
    _adv_glue("sst2", "sentiment", "sst2", ("sentence",), ("negative", "positive")),
    _adv_glue("qqp", "paraphrase", "qqp", ("question1", "question2"), ("different", "same")),
    _adv_glue("mnli", "nli", "mnli", _PREMISE, _THREE),
    _adv_glue("mnli_mismatched", "nli", "mnli-mm", _PREMISE, _THREE),
    _adv_glue("qnli", "qnli", "qnli", ("question", "sentence"), _ENTAILS),
    _adv_glue("rte", "rte", "rte", _TWO, _ENTAILS),
)
