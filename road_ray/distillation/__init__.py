"""Distillation: teacher ensembles, their weighting and storage, and the losses of the student.

``weighting/`` has the rules (ROaD's Algorithm 2 is ``weighting/correctness.py``), ``losses.py`` the
losses, ``ensemble/`` the ensembles of this process, ``answers/`` the teacher logits on disk,
``parity.py`` the check that actors, tables and local teachers agree, ``teacher_directory.py``
a teacher's identity and the checks of its labels, tokenizer and files. Teachers in Ray actors are
in ``distributed/teachers/``, the recipe in ``recipes/train/``. A
weighting rule is one function, of ``weighting/`` or of a module of the user's own.
"""
