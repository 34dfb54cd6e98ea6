"""Readers of the file layouts of published data sets, and of tables of one's own.

A reader turns a file into rows and rows into examples (``data/examples.py``), and names file and
line in every error. ``layouts.py`` maps a layout's name to its functions and reads a split;
``tables.py`` reads rows by column names, of files or of the Hugging Face hub. To add a layout,
write a module here and enter it in ``layouts.py``.
"""
