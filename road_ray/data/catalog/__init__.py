"""The catalogue of tasks and data sets, with look-up by name.

``sentences.py`` has data sets of sentences, pairs and tagged words, ``questions.py`` those of
questions about a text or with choices. To add a data set, add one entry there; to add a task, add
one here.
"""

from __future__ import annotations

from road_ray.data.catalog.questions import QUESTIONS
from road_ray.data.catalog.sentences import SENTENCES
from road_ray.data.readers.squad import CONTINUE, YES_NO
from road_ray.data.task_and_dataset import Choose, Classify, Dataset, Regress, Span, Tag, Task
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
