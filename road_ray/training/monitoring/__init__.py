"""Monitoring: the journal of a run, progress, experiment trackers, detection of collapse, secrets.

``journal.py`` writes ``metrics.jsonl``, the source of truth for everything else.
"""
