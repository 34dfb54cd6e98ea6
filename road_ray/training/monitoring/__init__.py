"""Monitoring: journal of a run, console, experiment trackers, detection of collapse, redaction.

``metrics_journal.py`` writes ``metrics.jsonl``, the source of truth for everything else.
``console_progress.py`` shows it, ``trackers.py`` sends it on, ``step_metrics.py`` sums up the
steps, ``out_of_memory.py`` and ``collapse.py`` explain what went wrong.
"""
