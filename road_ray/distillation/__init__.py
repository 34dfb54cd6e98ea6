"""Distillation: how teachers are weighted, asked, stored and trusted, and the loss of the student.

``weighting/`` has the rules (ROaD's Algorithm 2 is ``weighting/correctness.py``), ``losses.py`` the
losses, ``ensemble/`` the ensembles of this process, ``store/`` the teacher logits kept on disk,
``parity.py`` the check that all ways to ask the teachers agree, ``teacher_identity.py`` the checks
of a teacher's labels, tokenizer and files. Teachers in Ray actors are in ``distributed/teachers/``,
the recipe in ``recipes/distillation/``. To add a weighting rule, add one function to
``weighting/``.
"""
