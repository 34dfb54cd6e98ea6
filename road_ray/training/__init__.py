"""Training: one loop for every objective, on one worker or many.

Read ``loop.py`` first. ``config.py`` has the settings, ``run_context.py`` what a run is told by its
host and tells it, ``early_stopping.py`` periodic evaluation and early stopping, ``worker.py`` rank,
group size and device, ``fsdp.py`` sharded training.
``optimization/`` turns losses into updates, ``performance/`` is speed and memory, ``checkpoint/``
saves and restores, ``monitoring/`` records. Ray is not used here: see ``distributed/train/``.
"""
