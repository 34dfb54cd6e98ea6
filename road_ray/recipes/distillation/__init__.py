"""Distillation: ``road distill``.

``config.py`` has the keys, ``teacher_list.py`` reads ``teachers.json``, ``ensemble_eval.py``
evaluates the ensemble itself. The training is that of ``recipes/train/``, generations are in
``recipes/several_runs.py``.
"""
