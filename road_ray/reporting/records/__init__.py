"""Typed records for reports: run directories, sweeps and the lineage of models.

``run_record.py`` reads a run, ``sweep_record.py`` a sweep, ``lineage.py`` follows a model back to
its corpus, ``record_schema.py`` has the types that the files must have. Missing or damaged files
become notes of the record, not errors.
"""
