"""Evaluation: from logits to predictions, and from predictions to figures.

Start with ``evaluate_split.py``. ``metrics.py`` has the scores of classes and numbers, ``tags.py``
those of entities, ``spans/`` answers and SQuAD's scores, ``glue.py`` the GLUE average and
submission, ``significance.py`` tests over seeds.
"""
