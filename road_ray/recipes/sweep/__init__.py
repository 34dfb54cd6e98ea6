"""Sweeps: ``road sweep``. Trials are runs of the same recipes, drawn from ``search_spaces/``.

``config.py`` reads a file and reports every mistake, ``sweep.py`` runs it and writes the results,
``trials.py`` turns drawn values into configurations and runs them for every seed. The search itself
is in ``distributed/tune/``.
"""
