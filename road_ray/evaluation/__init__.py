"""Evaluation: from logits to predictions, and from predictions to figures.

Start with ``evaluate_split.py``. ``metrics.py`` has the scores of classes and numbers,
``tag_metrics.py`` those of entities, ``spans.py`` the answers to questions,
``no_answer_threshold.py`` when a model abstains, ``squad.py`` their official exact match and F1,
 ``glue.py`` the GLUE average and submission. ``seed_statistics.py`` has
means, intervals and tests over seeds.
"""
