"""Inspection of a user's own data for ``road init``: files by split, task, columns, labels.

Start in ``guess.py``. It calls ``data_files.py``, which finds files and reads rows, and finds the
columns of text and label. ``starter_config.py`` writes the guess as a commented YAML file. To add a
file layout, add it to ``data_files.py`` and to ``data/readers``. ``split_preview.py`` shows
examples and rows of tokens, for ``road data peek``.
"""
