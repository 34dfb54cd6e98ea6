"""Distillation: ``road distill``.

``config.py`` has the keys, ``distill.py`` the recipe, ``teacher_source.py`` opens the ensemble of a
worker, ``teacher_list.py`` reads ``teachers.json``, ``out_of_fold.py`` and ``born_again.py`` are
variants, ``ensemble_eval.py`` evaluates the ensemble itself.
"""
