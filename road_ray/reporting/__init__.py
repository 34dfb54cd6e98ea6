"""Reports: pages, tables, plots and model cards, made from run directories without torch or Ray.

``report.py`` chooses the page of a directory; ``pages/`` builds pages, ``plots.py`` draws figures.
``records/`` reads runs, sweeps and the lineage of models, ``model_card.py`` writes the model card,
``health.py`` assesses a run.
"""
