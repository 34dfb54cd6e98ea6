"""Sweeps on Ray Tune, with a study of Optuna that survives a killed driver.

Start with ``driver.py``. ``search_config.py`` has the keys and encodes the search space,
``searcher.py`` draws values with Optuna, ``schedulers.py`` stops trials early,
``trial_actor.py`` runs one trial, ``trial_record.py`` stores it. ``study.py`` opens the study's
file or database and tells it of trials. The function of a trial is in ``recipes/sweep/``.
"""
