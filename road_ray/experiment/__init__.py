"""``road reproduce``: experiments of several arms and seeds.

An experiment is a YAML file: ``catalogue/`` has the published ones, users write their own.
``config.py`` has its keys, ``expand.py`` makes the jobs of all arms and seeds, ``run.py`` runs
them, makes the table, and is ``road demo``; ``estimate.py`` is ``--dry-run``. To add a
comparison, add a file to ``catalogue/``.
"""
