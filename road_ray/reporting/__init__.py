"""Reports: pages, tables, plots and model cards, read from run directories. No torch, no Ray.

``report.py`` decides which page a directory gets; ``pages/`` builds them, ``plots/`` draws.
``run_record.py`` and ``sweep_record.py`` read directories, ``card.py`` writes the model card,
``advice.py`` and ``health.py`` judge a run, ``lineage.py`` follows a model back to its corpus.
"""
