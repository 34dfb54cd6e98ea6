"""Training: one loop for every objective, on one worker or many.

Read ``loop.py`` first. ``config.py`` has the settings, ``run_context.py`` what a run is told by its
host and tells it, ``worker.py`` rank, group size and device, sharded training and
``torch.compile``. ``gradients.py`` averages and checks the gradient of a step, ``optimizer.py`` has
AdamW, LAMB and the rates, ``early_stopping.py`` periodic evaluation.
``checkpoint_state.py`` is what a checkpoint holds, ``checkpoint_directory.py`` how it is committed
and mirrored. The journal is in ``monitoring/``; ``profile.py`` measures a few steps for ``road
plan``. Ray is not used here: see ``distributed/train/``.
"""
