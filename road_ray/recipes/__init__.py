"""Recipes: what each verb does, from a configuration to a finished run directory.

``run_directory/`` opens, records and finishes run directories; ``train/`` is the supervised
training of ``multitask/``, ``finetuning/`` and ``distillation/``, which have the verbs of their
names with their configuration, as have ``pretraining/`` and ``sweep/``; ``evaluate.py``,
``soup.py`` and ``plan.py`` the rest. A recipe composes; it does not compute. To add a verb, write a
recipe and enter it in ``road_ray.verbs``.
"""
