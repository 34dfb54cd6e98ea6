"""Evaluation: from logits to predictions, and from predictions to metrics.

Start with ``evaluate_split.py``. ``metrics.py`` has the scores of classes, numbers, entities and
label sets, and their calibration, ``spans.py`` the answers to questions, ``squad.py`` their
official exact match and F1 and when a model abstains, ``glue.py`` the GLUE average and submission,
``seed_statistics.py`` means, intervals and tests over seeds.
"""
