"""ROaD-ELECTRA on Ray. Every verb is a function: configuration in, ``Run`` out.

    import road_ray as rr
    run = rr.finetune(preset="sst2_small", overrides={"init": "runs/pretrain", "data.root": "..."})

Names load on first use, so that ``import road_ray`` is quick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from road_ray.data.task_and_dataset import Classify as Classify
    from road_ray.data.task_and_dataset import MultiLabel as MultiLabel
    from road_ray.data.task_and_dataset import Regress as Regress
    from road_ray.data.task_and_dataset import Span as Span
    from road_ray.data.task_and_dataset import Tag as Tag
    from road_ray.data.task_and_dataset import Task as Task
    from road_ray.distillation.annotate import model_inputs as model_inputs
    from road_ray.distillation.annotate import student_loss as student_loss
    from road_ray.distillation.hf_trainer import DistillationTrainer as DistillationTrainer
    from road_ray.distributed.public_ensemble import Ensemble as Ensemble
    from road_ray.inference.load_model import load as load
    from road_ray.recipes.run_directory.run import Run as Run
    from road_ray.recipes.sweep.sweep import sweep as sweep
    from road_ray.verbs import VerbFunction

    pretrain: VerbFunction
    multitask: VerbFunction
    finetune: VerbFunction
    teachers: VerbFunction
    distill: VerbFunction
    evaluate: VerbFunction
    reproduce: VerbFunction
    demo: VerbFunction

_VERBS = (
    *("pretrain", "multitask", "finetune", "teachers", "distill", "evaluate"),
    *("reproduce", "demo"),
)
_ELSEWHERE = {
    "DistillationTrainer": "road_ray.distillation.hf_trainer",
    "Ensemble": "road_ray.distributed.public_ensemble",
    "Run": "road_ray.recipes.run_directory.run",
    "load": "road_ray.inference.load_model",
    "model_inputs": "road_ray.distillation.annotate",
    "student_loss": "road_ray.distillation.annotate",
    "sweep": "road_ray.recipes.sweep.sweep",
    **dict.fromkeys(
        ("Classify", "MultiLabel", "Regress", "Span", "Tag", "Task"),
        "road_ray.data.task_and_dataset",
    ),
}

__all__ = [
    *("DistillationTrainer", "Ensemble", "Run", "load", "model_inputs", "student_loss", "sweep"),
    *("Classify", "MultiLabel", "Regress", "Span", "Tag", "Task"),
    *_VERBS,
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name in _VERBS:
        return _verb(name)
    if name in _ELSEWHERE:
        from importlib import import_module

        return getattr(import_module(_ELSEWHERE[name]), name)
    raise AttributeError(f"module 'road_ray' has no attribute {name!r}")


def _verb(name: str) -> Callable[..., Any]:
    from functools import partial

    from road_ray.verbs import VERBS, perform

    function = partial(perform, name)
    function.__doc__ = VERBS[name].about
    return function
