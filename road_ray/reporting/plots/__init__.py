"""Plots: ``chart.py`` describes a figure, ``svg.py`` draws it, ``files.py`` writes it as a file."""
