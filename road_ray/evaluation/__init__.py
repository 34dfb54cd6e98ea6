"""Evaluation: from logits to predictions, and from predictions to figures.

Start with ``evaluate_split.py``. ``metrics.py`` has the scores of classes and numbers, ``tags.py``
those of entities, ``spans/`` the answers to questions, ``squad.py`` their official exact match and
F1, ``glue.py`` the GLUE average and submission, ``significance.py`` tests over seeds.
"""
