"""Ray Train: one training on a group of workers.

Start with ``launch.py``. ``worker_group.py`` starts a group, supervises and restarts it, and has
what driver and workers tell each other, ``preemption.py`` the notice of a cloud.
"""
