"""Answers of teachers on disk: tables of raw logits, keyed by the content of a row.

``row_keys.py`` has the keys and values of rows, ``answer_table.py`` one table (written once, then
immutable and memory-mapped), ``teacher_tables.py`` the tables of a teacher, ``maintenance.py``
lists, verifies and prunes them.
"""
