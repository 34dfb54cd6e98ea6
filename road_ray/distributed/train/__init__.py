"""Ray Train: one training on a group of workers.

Start with ``launch.py``. ``worker_group.py`` starts a group and restarts it, ``supervisor.py`` is
the driver beside its workers, ``worker_channel.py`` the actor through which they talk,
``preemption.py`` the notice of a cloud. ``gpu_check.py`` checks the GPUs before a start.
"""
