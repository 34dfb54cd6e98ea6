"""Heads: the output layers that a task adds to an encoder.

``standard.py`` has those of transformers and ``build_head``; ``joint_span.py`` is ELECTRA's
joint head for questions, ``san.py`` MT-DNN's stochastic answer network. To add one, write a module
here, a kind in ``data/task_and_dataset.py`` and an entry in ``data/special_heads.py``.
"""
