"""Inspection of a user's own data for ``road init``: files by split, task, columns, labels.

Start in ``task_guess.py``. It calls ``sources.py``, which finds files and reads rows, and
``column_guess.py``, which guesses what the columns are. ``starter.py`` writes the guess as a
commented YAML file. A layout of files is added in ``sources.py``; reading it is the work of
``data/readers``. ``preview.py`` shows rows as a model gets them, for ``road data peek``.
"""
