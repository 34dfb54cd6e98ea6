"""Sweeps: ``road sweep``. Trials are runs of the same recipes, drawn from ``search_spaces/``.

``sweep.py`` runs a sweep and writes the results, ``trials.py`` reads its file and reports every
mistake, turns drawn values into configurations and runs them for every seed. The search itself is
in ``distributed/tune/``.
"""
