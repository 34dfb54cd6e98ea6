"""Distillation: ``road distill``.

``config.py`` has the keys, ``distill.py`` the recipe, ``teacher_source.py`` where a worker's soft
targets come from, ``teacher_list.py`` reads ``teachers.json``, ``out_of_fold.py`` and
``born_again.py`` are variants, ``ensemble_eval.py`` judges the ensemble itself.
"""
