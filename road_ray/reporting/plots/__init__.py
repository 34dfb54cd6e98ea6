"""Plots: ``chart.py`` describes a figure, ``svg.py`` and ``matplotlib.py`` draw it."""
