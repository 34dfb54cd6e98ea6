"""Supervised training, the same for ``road finetune``, ``road multitask`` and ``road distill``.

A verb is a configuration; one data set is a mixture of one. Start with ``train.py``, which joins
the rest: ``mixture.py`` reads the data sets and draws the steps, ``prepare.py`` adds tokenizer and
model, ``find_teachers.py`` resolves the teachers of each data set, ``teachers.py`` opens them on a
worker or has them label the rows, ``teacher_record.py`` records them, ``overlap.py`` counts dev
examples that are trained on, ``evaluate_and_export.py`` ends the run.
"""
