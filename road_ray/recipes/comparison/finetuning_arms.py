"""Comparisons of ``road reproduce`` beyond pre-training: one entry is one arm, given as overrides
of ``road finetune`` or, with teachers, of ``road distill``.

Published figures are percentages of large models on full data: Clark et al. 2020 and the
ROaD-ELECTRA posts (part 1, tables of sections 4 and 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Keys = Mapping[str, Any]
"""Changed configuration keys of a verb, by dotted name."""


@dataclass(frozen=True)
class Stage:
    """Training before the fine-tuning of an arm, once for each seed."""

    verb: Literal["pretrain", "multitask"]
    keys: Keys
    teachers: str = ""  # ensemble that each data set of the mixture has
    batch_factor: int = 1  # times the rows of a pass


@dataclass(frozen=True)
class Arm:
    """One row of the table."""

    name: str
    about: str
    keys: Keys
    teachers: str = ""  # name of an ensemble; empty: no distillation
    members: int | None = None  # number of its teachers that the student has; None: all
    unlabelled: bool = False  # rows without labels follow those of the data set
    equal_steps: bool = False  # as many updates as with rows without labels
    layers: float = 1.0  # fraction of the layers of ``init``
    noise: float = 0.0  # fraction of training labels that are replaced by others
    stage: Stage | None = None
    against: tuple[str, ...] = ()  # arms that it is tested against; empty: the first
    published: Mapping[str, float] = field(default_factory=dict)  # by ``data set/metric``


@dataclass(frozen=True)
class Comparison:
    """Arms that differ in one thing each."""

    about: str
    source: str
    dataset: str  # to train on
    arms: tuple[Arm, ...]  # the first is what the others are compared with
    evaluate_on: tuple[str, ...] = ()  # beside the data set
    targets: Mapping[str, Keys] = field(default_factory=dict)
    max_rows: int | None = None  # labelled training rows
    ensembles: Mapping[str, Keys] = field(default_factory=dict)  # overrides of ``road teachers``

    def arm(self, name: str) -> Arm:
        """Return the arm of that name."""
        return next(arm for arm in self.arms if arm.name == name)


_MEAN: Keys = {"weighting.rule": "mean"}
_NONE = Arm("none", "no KD", {})
_ROAD = "ROaD-ELECTRA part 1 (ELECTRA-Large, three teachers of its size)"
_ENSEMBLES: Mapping[str, Keys] = {"teachers": {}}


def _squad(f1: float, exact: float, **further: float) -> dict[str, float]:
    return {"squad_v2/best_f1": f1, "squad_v2/best_exact": exact} | {
        name.replace("__", "/"): value for name, value in further.items()
    }


def _weighted(wrong: float, **options: Any) -> Arm:
    name = f"weighted_{wrong}"
    keys = {"weighting.rule": "correctness", "weighting.wrong": wrong}
    about = f"Weighted, W = {wrong}"
    return Arm(name, about, keys, "teachers", against=("none", "mean"), **options)


def _distillation() -> Comparison:
    anneal = {**_MEAN, "distillation.schedule": "linear"}
    again = {**_MEAN, "distillation.generations": 2}
    fold = {"weighting.rule": "correctness"}
    none, mean = _squad(90.87, 88.34, newsqa__f1=60.5), _squad(91.38, 88.84)
    arms = (
        Arm("none", "no KD", {}, published=none),
        Arm("single", "one teacher", _MEAN, "teachers", 1),
        Arm("mean", "mean of three", _MEAN, "teachers", published=mean),
        _weighted(0.5),
        _weighted(0.75, published=_squad(91.5, 89.0, newsqa__f1=60.4)),
        _weighted(0.9),
        Arm("annealing", "annealing, mean of three", anneal, "teachers", None,
            against=("none", "mean"), published=_squad(91.0, 88.1)),
        Arm("folds_mean", "mean, teachers of folds", _MEAN, "folds"),
        Arm("folds", "Weighted, teachers of folds", fold, "folds", against=("none", "folds_mean")),
        Arm("born_again", "born again, second generation", again, "teachers", 1),
    )  # fmt: skip
    ensembles: Mapping[str, Keys] = {"teachers": {}, "folds": {"num_folds": 2}}
    published = f"{_ROAD}, section 5"
    about = "ways to learn from an ensemble, in and out of domain"
    return Comparison(about, published, "squad_v2", arms, ("newsqa",), ensembles=ensembles)


def _multitask() -> Comparison:
    # As many rows a step: one pass of four times the size, as in the preset mt_dnn.
    mt_dnn = Stage("multitask", {"mixing.passes": 1, "mixing.heads": "dataset"}, batch_factor=4)
    road: Keys = {"mixing.passes": 4, "mixing.heads": "task"}

    def figures(f1: float, exact: float, mnli: float, qqp: float) -> dict[str, float]:
        return _squad(f1, exact) | {"mnli/accuracy": mnli, "qqp/accuracy": qqp}

    arms = (
        Arm("single", "single task", {}, published=figures(90.5, 87.9, 90.9, 92.2)),
        Arm("mt_dnn", "MT-DNN's way", {}, stage=mt_dnn,
            published=figures(90.3, 87.5, 90.8, 92.1)),
        Arm("road", "ROaD's way", {}, stage=Stage("multitask", road), against=("single", "mt_dnn"),
            published=figures(90.9, 88.3, 91.2, 92.4) | {"newsqa/f1": 56.8}),
        Arm("road_kd", "ROaD's way with KD", {}, stage=Stage("multitask", road, "teachers"),
            against=("single", "road"),
            published=figures(91.0, 88.5, 91.4, 92.6) | {"newsqa/f1": 57.9}),
    )  # fmt: skip
    targets: Mapping[str, Keys] = {
        "rte": {"data.epochs": 10.0}, "mrpc": {}, "stsb": {"data.epochs": 10.0}, "cola": {},
        "boolq": {}, "squad_v2": {"data.evaluate_on": ["squad_v2", "newsqa"]},
    }  # fmt: skip
    about = "multi-task training before fine-tuning on each data set"
    source = f"{_ROAD}, section 4"
    return Comparison(about, source, "", arms, targets=targets, ensembles=_ENSEMBLES)


def _compression() -> Comparison:
    arms = []
    for name, about, layers in (("full", "all layers", 1.0), ("half", "half the layers", 0.5),
                                ("third", "a third of the layers", 1 / 3)):  # fmt: skip
        without, longer = f"none_{name}", f"longer_{name}"
        base = () if name == "full" else ("none_full",)
        arms += [
            Arm(without, f"{about}, no KD", {}, layers=layers, against=base),
            Arm(longer, f"{about}, no KD, as many updates", {},
                equal_steps=True, layers=layers, against=(without,)),
            Arm(f"kd_{name}", f"{about}, KD", {}, "teachers", layers=layers,
                against=(without, *base)),
            Arm(f"rows_{name}", f"{about}, KD and unlabelled rows", {}, "teachers",
                unlabelled=True, layers=layers, against=(longer, f"kd_{name}", *base)),
        ]  # fmt: skip
    about = "students of all, half and a third of the layers of their teachers"
    return Comparison(
        about, "no published table", "sst2", tuple(arms), max_rows=5000, ensembles=_ENSEMBLES
    )


def _low_resource() -> Comparison:
    rules = (
        ("mean", "mean"), ("correctness", "Weighted, W = 0.75"),
        ("correct_only", "correct teachers only"), ("confidence", "by confidence"),
        ("entropy", "by entropy"), ("mean_probabilities", "mean of probabilities"),
        ("probability_shift", "mean, shifted to the label"),
    )  # fmt: skip
    both = ("none", "none_longer")
    arms = (
        _NONE,
        Arm("none_longer", "no KD, as many updates", {}, equal_steps=True),
        Arm("labelled", "mean of three, labelled rows", _MEAN, "teachers"),
        Arm("single", "one teacher", _MEAN, "teachers", 1, unlabelled=True, against=both),
        *(
            Arm(rule, f"{about}, all rows", {"weighting.rule": rule}, "teachers", unlabelled=True,
                against=both if rule == "mean" else (*both, "mean"))
            for rule, about in rules
        ),
    )  # fmt: skip
    about = "few labels: teachers on many rows without labels, by every weighting rule"
    return Comparison(
        about, "no published table", "sst2", arms, max_rows=1000, ensembles=_ENSEMBLES
    )


def _noisy_labels() -> Comparison:
    arms = []
    for noise in (0.1, 0.2):
        percent = f"{100 * noise:.0f}"
        none, mean = f"none_{percent}", f"mean_{percent}"
        arms += [
            Arm(none, f"{percent}% flipped, no KD", {}, noise=noise, against=("none",)),
            Arm(mean, f"{percent}% flipped, mean of three", _MEAN, "teachers", noise=noise,
                against=(none,)),
            Arm(f"weighted_{percent}", f"{percent}% flipped, Weighted, W = 0.75",
                {"weighting.rule": "correctness"}, "teachers", noise=noise, against=(none, mean)),
        ]  # fmt: skip
    about = "wrong labels in the training rows: equal weights against weights by correctness"
    return Comparison(
        about,
        "no published table",
        "sst2",
        (Arm("none", "no flipped labels, no KD", {}), *arms),
        max_rows=2000,
        ensembles=_ENSEMBLES,
    )


def _domain() -> Comparison:
    rtd, mlm = Stage("pretrain", {}), Stage("pretrain", {"objective.name": "mlm"})
    arms = (
        Arm("none", "no further pre-training", {}),
        Arm("rtd", "continued replaced-token detection", {}, stage=rtd),
        Arm("mlm", "continued masked language modelling", {}, stage=mlm),
    )
    about = "pre-training continued on the text of the domain, then fine-tuning"
    return Comparison(about, "no published table", "amazon", arms, max_rows=2000)


COMPARISONS: Mapping[str, Comparison] = {
    "road_distillation": _distillation(),
    "road_multitask": _multitask(),
    "compression": _compression(),
    "low_resource": _low_resource(),
    "noisy_labels": _noisy_labels(),
    "domain": _domain(),
}
