"""Reports: pages, tables, plots and model cards, read from run directories. No torch, no Ray.

``report.py`` decides which page a directory gets; ``pages/`` builds them, ``plots/`` draws.
``records/`` reads runs, sweeps and the lineage of models, ``card.py`` writes the model card,
``advice.py`` and ``health.py`` judge a run.
"""
