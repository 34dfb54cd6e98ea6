"""Evaluation: from logits to predictions, and from predictions to figures.

Start with ``evaluate_split.py``. ``squad.py`` has the official exact match and F1,
``span_answers.py`` the answers and the no-answer threshold, ``tags.py`` entity scores,
``metrics.py`` scores and tests over seeds, ``glue.py`` the GLUE average and submission.
"""
