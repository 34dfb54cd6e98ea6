"""ROaD-ELECTRA on Ray. Every verb is a function: configuration in, ``Run`` out.

    import road_ray as rr
    run = rr.finetune(preset="sst2_small", overrides={"init": "runs/pretrain", "data.root": "..."})

Names load on first use, so that ``import road_ray`` is quick.
"""

from typing import Any

_VERBS = (
    *("pretrain", "multitask", "finetune", "teachers", "distill", "evaluate"),
    *("reproduce", "demo"),
)
# Names in modules of their own. Types of all names are in `__init__.pyi`, made by tools/stub.py.
OBJECTS = {
    "DistillationTrainer": "road_ray.distillation.hf_trainer",
    "Ensemble": "road_ray.distributed.public_ensemble",
    "Run": "road_ray.recipes.run_directory.run",
    "RunContext": "road_ray.training.run_context",
    "load": "road_ray.inference.load_model",
    "model_inputs": "road_ray.distillation.annotate",
    "student_loss": "road_ray.distillation.annotate",
    "sweep": "road_ray.recipes.sweep.sweep",
    **dict.fromkeys(
        ("Classify", "MultiLabel", "Regress", "Span", "Tag", "Task"),
        "road_ray.data.task_and_dataset",
    ),
}

__all__ = sorted([*OBJECTS, *_VERBS])


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    from functools import partial
    from importlib import import_module

    if name in _VERBS:
        from road_ray.verbs import VERBS, perform

        function = partial(perform, name)
        function.__doc__ = VERBS[name].docstring
        return function
    if name in OBJECTS:
        return getattr(import_module(OBJECTS[name]), name)
    raise AttributeError(f"module 'road_ray' has no attribute {name!r}")
