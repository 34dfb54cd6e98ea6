"""Speed and memory of a training, and their measurement.

``compile.py`` has ``torch.compile`` and activation checkpointing, ``prefetch.py`` copies batches to
the GPU ahead of their step. ``profile.py`` measures a few steps for ``road plan``; ``mfu.py``
computes model FLOPs utilization.
"""
