"""Sweeps on Ray Tune, with a study of Optuna that survives a killed driver.

Start with ``driver.py``. ``search_config.py`` has the keys and encodes the search space,
``searcher.py`` draws values with Optuna, ``schedulers.py`` stops trials early,
``trial_actor.py`` runs one trial, ``trial_record.py`` stores it, ``trial_resources.py`` counts what
it needs. ``study_storage.py`` opens the study's file or database, ``study.py`` tells it of trials,
``one_driver_at_a_time.py`` locks the sweep. The function of a trial is in ``recipes/sweep/``.
"""
