"""Reports: pages, tables, plots and model cards, made from run directories without torch or Ray.

``report.py`` chooses the page of a directory; ``pages/`` builds pages, ``plots/`` draws figures.
``records/`` reads runs, sweeps and the lineage of models, ``model_card.py`` writes the model card,
``advice.py`` and ``health.py`` assess a run.
"""
