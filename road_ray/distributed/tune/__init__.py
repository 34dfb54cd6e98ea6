"""Sweeps on Ray Tune, with a study of Optuna that survives a killed driver.

Start with ``driver.py``. ``space.py`` declares what is searched, ``searcher.py`` asks Optuna,
``schedulers.py`` stop trials early, ``pbt.py`` is population-based training, ``trial.py`` runs one
trial, ``trial_record.py`` keeps it, ``study.py`` and ``storage.py`` keep the study, ``lock.py``
admits one driver. What a trial runs is in ``recipes/sweep/``.
"""
