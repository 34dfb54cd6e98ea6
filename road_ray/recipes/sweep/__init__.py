"""Sweeps: ``road sweep``. Trials are runs of the same recipes, drawn from ``search_spaces/``.

``sweep_file.py`` reads a file and reports every mistake, ``sweep.py`` runs it, ``trials.py`` turns
drawn values into configurations and runs them for every seed, ``result.py`` writes the results. The
search itself is in ``distributed/tune/``.
"""
