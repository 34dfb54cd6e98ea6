"""Sweeps on Ray Tune, with a study of Optuna that survives a killed driver.

Start with ``driver.py``. ``space.py`` encodes the search space, ``searcher.py`` draws values with
Optuna, ``schedulers.py`` stops trials early, ``pbt.py`` is population-based training, ``trial.py``
runs one trial, ``trial_record.py`` stores it, ``study.py`` and ``storage.py`` store the study,
``lock.py`` admits one driver. The function that a trial runs is in ``recipes/sweep/``.
"""
