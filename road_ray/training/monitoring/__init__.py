"""Monitoring: the journal of a run, progress, experiment trackers, signs of collapse, secrets.

``journal.py`` writes ``metrics.jsonl``, the source of truth; everything else follows from it.
"""
