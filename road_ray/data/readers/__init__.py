"""Readers: one module for each file layout of published data sets.

A reader yields examples (``features/examples_and_features.py``) and names file and line in every
error. ``layouts.py`` maps a layout's name to its reader and reads a split; ``parts/`` has what
readers share. To add a layout, write a module here and enter it in ``layouts.py``.
"""
