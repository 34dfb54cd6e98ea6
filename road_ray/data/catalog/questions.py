"""Entries of question answering and multiple-choice data sets. Add one here."""

from __future__ import annotations

from road_ray.data.readers.squad import CONTINUE, YES_NO
from road_ray.data.task_and_dataset import Columns, Dataset, Hub, Splits

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
