"""Distillation: ``road distill``.

``config.py`` has the keys, ``distill.py`` the verb, ``teacher_list.py`` reads and writes
``teachers.json``, ``born_again.py`` trains generations, ``ensemble_eval.py`` evaluates the ensemble
itself. The training is that of ``recipes/train/``.
"""
