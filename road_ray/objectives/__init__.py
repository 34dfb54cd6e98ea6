"""Objectives: modules that turn a batch into the terms of a loss.

``base.py`` declares ``Objective``, ``Losses`` and ``Term``. ``supervised.py`` learns from labels,
and from teachers, also from their hidden states; ``pretraining/`` has the objectives of
pre-training, ``masking.py`` the pure functions that choose, mask, sample and corrupt tokens for
them. An objective returns sums and counts; only ``training/gradients.py`` divides.
"""
