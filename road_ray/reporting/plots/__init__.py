"""Plots: ``chart.py`` says what a figure shows, ``svg.py`` and ``matplotlib.py`` draw it."""
