"""Distillation: teacher ensembles, their weighting and storage, and the losses of the student.

``weighting.py`` has the rules (``correctness`` is ROaD's Algorithm 2), ``losses.py`` the losses,
``ensemble/`` the ensembles of this process, ``answer_table.py`` and ``stored_ensemble.py`` the
teachers' logits on disk, ``parity.py`` the check that actors, tables and local teachers agree,
``teacher_directory.py`` a teacher's identity and the checks of its labels, tokenizer and files.
Teachers in Ray actors are in ``distributed/teachers/``, the recipe in ``recipes/train/``. A
weighting rule is one function, of ``weighting.py`` or of a module of the user's own.
"""
