"""Objectives: modules that turn a batch into the terms of a loss. One objective, one file.

``base.py`` declares ``Objective``, ``Losses`` and ``Term``; ``registry.py`` lists the pre-training
objectives by name; ``masking.py`` has the pure functions that choose, mask, sample and corrupt;
``parts/`` has what several objectives share. ``supervised.py`` learns from labels, ``distilled.py``
from labels and teachers, ``intermediate.py`` from hidden states too. An objective returns sums and
counts; only the training step divides. To add one, write a file like ``mlm.py`` and enter it in
``registry.py``.
"""
