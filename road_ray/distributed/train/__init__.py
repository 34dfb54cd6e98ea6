"""Ray Train: one training on a group of workers.

Start with ``launch.py``. ``worker_group.py`` starts a group and restarts it, ``supervisor.py`` is
the driver beside its workers, ``worker_channel.py`` the actor through which they talk,
``elastic.py`` the changing number of machines, ``preemption.py`` the notice of a cloud.
``gpu_check.py`` checks the GPUs before a start, ``worker_network.py`` sets the addresses by which
workers connect.
"""
