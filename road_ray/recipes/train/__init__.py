"""Supervised training, the same for ``road finetune``, ``road multitask`` and ``road distill``.

A verb is a configuration; one data set is a mixture of one. Start with ``train.py``, which joins
the rest and evaluates and exports at the end: ``mixture.py`` reads the data sets and draws the
steps, ``prepare.py`` adds tokenizer, model and objective, ``find_teachers.py`` resolves the
teachers of each data set, ``teachers.py`` opens them on a worker or has them label the rows,
``answer_files.py`` reads those that are files, ``answer_cells.py`` their cells.
"""
