"""Way from the terms of a loss to an update of the weights.

``gradient_accumulation.py`` averages the gradient over the passes of a step and over all workers,
``learning_rate.py`` is the schedule, ``layer_decay.py`` gives each layer its share of the rate,
``optimizer.py`` has AdamW and LAMB, ``loss_guard.py`` checks an update before it is made. The loop
that calls them is ``training/loop.py``.
"""
