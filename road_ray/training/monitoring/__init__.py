"""Monitoring: journal of a run, console and experiment trackers.

``metrics_journal.py`` writes ``metrics.jsonl``, the source of truth for everything else, and shows
it; ``trackers.py`` sends it on.
"""
