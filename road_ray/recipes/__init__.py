"""Recipes: what each verb does, from a configuration to a finished run directory.

``run.py`` opens, records and finishes run directories; ``pretraining/``, ``multitask/``,
``finetuning/``, ``distillation/`` and ``sweep/`` have one verb each, with its configuration;
``evaluate.py``, ``demo.py`` and ``plan.py`` the rest. A recipe composes; it does not compute. To
add a verb, write a recipe and enter it in ``road_ray.verbs``.
"""
