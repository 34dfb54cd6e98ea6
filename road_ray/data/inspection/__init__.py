"""Inspection of a user's own data for ``road init``: files by split, task, columns, labels.

Start in ``task_guess.py``. It calls ``sources.py``, which finds files and reads rows, and
``column_guess.py``, which guesses the columns of text and label. ``starter.py`` writes the guess as
a commented YAML file. To add a file layout, add it to ``sources.py`` and to ``data/readers``.
``preview.py`` shows examples and rows of tokens, for ``road data peek``.
"""
