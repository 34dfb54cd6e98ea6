"""Ray Train: one training on a group of workers.

``worker_group.py`` starts a group, supervises and restarts it, and has what driver and workers tell
each other, ``preemption.py`` the notice of a cloud. ``launch`` of ``recipes/run_directory/run.py``
calls it.
"""
