"""Typed records for reports: run directories, sweeps, comparisons and the lineage of models.

``run_record.py`` reads a run and follows a model back to its corpus, ``sweep_record.py`` reads a
sweep, ``comparison_table.py`` makes the table of several runs. A missing or damaged file becomes a
note of the record, not an error.
"""
