"""Sweeps on Ray Tune, with a study of Optuna that survives a killed driver.

Start with ``driver.py``. ``search_config.py`` has the keys and encodes the search space,
``searcher.py`` draws values with Optuna and stops trials early, ``one_trial.py`` runs and records a
trial. ``study.py`` opens the study's file or database and tells it of trials. The function of a
trial is in ``recipes/sweep/``.
"""
