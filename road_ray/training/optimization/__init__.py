"""Optimization: from the terms of a loss to an update of the weights.

``gradient_accumulation.py`` averages the gradient over the passes of a step and over all workers,
``learning_rate.py`` has the schedule and the share of each layer, ``optimizer.py`` AdamW and LAMB,
``loss_guard.py`` checks an update before it is made. The loop that calls them is
``training/loop.py``.
"""
