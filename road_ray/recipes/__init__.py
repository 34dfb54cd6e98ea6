"""Recipes: what each verb does, from a configuration to a finished run directory.

``run_directory/`` opens, records and finishes run directories. ``train/`` is one supervised run, of
``road finetune``, ``multitask`` or ``distill``; ``several_runs.py`` are the runs of several seeds,
data sets, teachers and generations. ``pretraining/`` and ``sweep/`` have the verbs of their names,
``evaluate.py``, ``export.py`` and ``plan.py`` theirs; ``label_errors.py`` is ``road data errors``.
A recipe composes; it does not compute. To add a verb, write a recipe and enter it in
``road_ray.verbs``.
"""
