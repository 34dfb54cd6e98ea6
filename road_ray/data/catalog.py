"""The catalogue of tasks and data sets, with look-up by name: sentences, pairs and tagged words,
then questions about a text or with choices. To add a data set or a task, add one entry.
"""

from typing import Any

from road_ray.data.readers.squad import CONTINUE, YES_NO
from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    Columns,
    Dataset,
    Hub,
    Regress,
    Span,
    Splits,
    Tag,
    Task,
)
from road_ray.errors import ConfigError, did_you_mean

_ENTITIES = ("PER", "ORG", "LOC", "MISC")
_ENTAILMENT = Classify(("entailment", "not_entailment"))

_TASKS = (
    Task("mrc", Span()),
    # ELECTRA's order of the three labels (google electra,
    # finetune/classification/classification_tasks.py).
    Task("nli", Classify(("contradiction", "entailment", "neutral"))),
    Task("rte", _ENTAILMENT),
    Task("qnli", _ENTAILMENT),  # does the sentence hold the answer
    Task("coreference", _ENTAILMENT),
    Task("paraphrase", Classify(("different", "same"))),
    Task("sentiment", Classify(("negative", "positive"))),
    Task("acceptability", Classify(("unacceptable", "acceptable"))),
    Task("similarity", Regress(0.0, 5.0)),
    Task("rating", Classify(("1", "2", "3", "4", "5"))),
    Task("boolq", Classify(("no", "yes"))),
    Task(YES_NO, Classify(("yes", "no", "neither"))),
    Task(CONTINUE, Classify(("follow up", "maybe", "stop"))),
    Task("ner", Tag(("O", *(f"{mark}-{kind}" for kind in _ENTITIES for mark in "BI")))),
    Task("commonsense", Choose(5)),
    Task("completion", Choose(4)),
)

TASKS: dict[str, Task] = {task.name: task for task in _TASKS}

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


_SQUAD_METRICS = ("exact", "f1")
_NAMES = ("train", "dev", "test")


def _squad(name: str, folder: str, train: str | None, dev: str, hub: str | None = None) -> Dataset:
    return Dataset(
        name,
        task="mrc",
        layout="squad_json",
        folder=folder,
        splits=Splits(train=train, dev=dev),
        metrics=_SQUAD_METRICS,
        hub=None if hub is None else Hub(hub),
    )


def _mrqa(name: str, file: str, subset: str, *, trained: bool = True) -> Dataset:
    """Return a data set of the MRQA 2019 shared task; its test-only sets have no train split."""
    only = ("subset", subset)
    return Dataset(
        name,
        task="mrc",
        layout="mrqa",
        folder="mrqa",
        splits=Splits(
            train=f"train/{file}.jsonl" if trained else None,
            dev=f"dev/{file}.jsonl|{'dev_in_domain' if trained else 'dev_out_domain'}/{file}.jsonl",
        ),
        metrics=_SQUAD_METRICS,
        hub=Hub("mrqa-workshop/mrqa", None, only, {} if trained else {"dev": "test"}),
    )


# An entry is read as one row of a table: name, task, layout, folder, columns, splits.
# fmt: off
QUESTIONS = (
    _squad("squad_v1", "squad", "train-v1.1.json", "dev-v1.1.json", "rajpurkar/squad"),
    _squad("squad_v2", "squad", "train-v2.0.json", "dev-v2.0.json", "rajpurkar/squad_v2"),
    _squad("newsqa", "newsqa", None, "dev.json"),  # out of domain: evaluate only
    _squad("duorc", "duorc", "train.json", "dev.json"),
    # One adversarial sentence in each context (Jia and Liang 2017): evaluate only.
    _squad("squad_addsent", "squad_adversarial", None, "sample1k-HCVerifyAll.json"),
    _squad("squad_addonesent", "squad_adversarial", None, "sample1k-HCVerifySample.json"),
    _mrqa("triviaqa", "TriviaQA-web", "TriviaQA-web"),
    _mrqa("natural_questions", "NaturalQuestionsShort", "NaturalQuestionsShort"),
    _mrqa("hotpotqa", "HotpotQA", "HotpotQA"),
    _mrqa("searchqa", "SearchQA", "SearchQA"),
    _mrqa("mrqa_squad", "SQuAD", "SQuAD"),
    _mrqa("mrqa_newsqa", "NewsQA", "NewsQA"),
    _mrqa("bioasq", "BioASQ", "BioASQ", trained=False),
    _mrqa("drop", "DROP", "DROP", trained=False),
    _mrqa("mrqa_duorc", "DuoRC", "DuoRC.ParaphraseRC", trained=False),
    _mrqa("race", "RACE", "RACE", trained=False),
    _mrqa("relation_extraction", "RelationExtraction", "RelationExtraction", trained=False),
    _mrqa("textbookqa", "TextbookQA", "TextbookQA", trained=False),
    Dataset(  # no hub: its copy there is a script, which `datasets` no longer runs
        "quac", "mrc", "quac", "quac", splits=Splits("train_v0.2.json", "val_v0.2.json"),
        metrics=_SQUAD_METRICS, also=(YES_NO, CONTINUE),
    ),
    Dataset(
        "qasrl", "mrc", "qasrl", "qasrl", metrics=_SQUAD_METRICS,
        splits=Splits(*((f"{n}.wikinews.gold.csv", f"{n}.wikipedia.gold.csv") for n in _NAMES[:2])),
    ),
    Dataset(
        "qazre", "mrc", "zre", "qa_zre", metrics=_SQUAD_METRICS,
        splits=Splits(*(f"{name}.json|relation_splits/{name}.0" for name in _NAMES)),
        hub=Hub("community-datasets/qa_zre"),
    ),
    Dataset(
        "commonsenseqa", "commonsense", "commonsenseqa", "commonsenseqa", Columns((), id="id"),
        Splits(
            "train.jsonl|train_rand_split.jsonl",
            "dev.jsonl|dev_rand_split.jsonl",
            "test.jsonl|test_rand_split_no_answers.jsonl",
        ),
        hub=Hub("tau/commonsense_qa"),
    ),
    Dataset(
        "swag", "completion", "swag", "swag", splits=Splits("train.csv", "val.csv", "test.csv"),
        hub=Hub("allenai/swag", "regular"),
    ),
    Dataset(
        "hellaswag", "completion", "hellaswag", "hellaswag", hub=Hub("Rowan/hellaswag"),
        splits=Splits(*(f"hellaswag_{name}.jsonl" for name in ("train", "val", "test"))),
    ),
)

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in (*SENTENCES, *QUESTIONS)}


def dataset(name: str) -> Dataset:
    """Return the data set ``name``. Raises ``ConfigError`` with the nearest name."""
    if name not in DATASETS:
        raise ConfigError(
            f"{_unknown('data set', name, DATASETS)}\n"
            "  fix: define it under data.sets, or choose a name of `road data list`"
        )
    return DATASETS[name]


def task(name: str) -> Task:
    """Return the task of that name, or of the data set of that name."""
    if name in TASKS:
        return TASKS[name]
    if name in DATASETS:
        return TASKS[DATASETS[name].task]
    raise ConfigError(_unknown("task", name, [*TASKS, *DATASETS]))


def _unknown(kind: str, name: str, known: object) -> str:
    names = sorted(known)  # type: ignore[call-overload]
    hint = did_you_mean(name, names)
    return f"unknown {kind} {name!r}{hint}\n  known: {', '.join(names)}"
