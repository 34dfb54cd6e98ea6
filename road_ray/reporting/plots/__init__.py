"""Plots: ``chart.py`` describes a figure, ``svg.py`` draws it and ``files.py`` writes it as a file."""
