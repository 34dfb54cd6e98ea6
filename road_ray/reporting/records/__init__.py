"""Typed records for reports: run directories, sweeps and the lineage of models.

``run_record.py`` reads a run, ``sweep_record.py`` a sweep, ``lineage.py`` follows a model back to
its corpus. A missing or damaged file becomes a note of the record, not an error.
"""
