"""Parts that readers share: lines and JSON of text files, and rows of tables of every format.

``text_files.py`` has lines, JSON, the checks of columns and their error messages. ``table_rows.py``
has rows by column names from CSV, TSV, JSONL, parquet and Arrow.
"""
