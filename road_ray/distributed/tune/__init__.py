"""Sweeps on Ray Tune, with a study of Optuna that survives a killed driver.

Start with ``driver.py``, which draws values with Optuna and starts trials. ``search_config.py`` has
the keys and encodes the search space, ``one_trial.py`` runs and records a trial. ``study.py`` opens
the study's journal, tells it of trials and says which ones stop early. The function of a trial is
in ``recipes/sweep/``.
"""
