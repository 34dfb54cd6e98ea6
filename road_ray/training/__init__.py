"""Training: one loop for every objective, on one worker or many.

Read ``loop.py`` first, then ``step.py``. ``config.py`` has the settings, ``optimizer.py`` AdamW
with ELECTRA's habits and LAMB, ``early_stopping.py`` periodic evaluation and early stopping,
``loss_guard.py`` the checks of every update, ``worker.py`` what the loop knows of its process,
``fsdp.py`` sharded training. ``checkpoint/`` saves and restores, ``monitoring/`` records. Ray is
not known here: see ``distributed/train/``.
"""
