"""Speed and memory of a training: what makes it fast, and what measures it.

``compile.py`` has ``torch.compile`` and activation checkpointing, ``prefetch.py`` copies batches to
the GPU ahead of their step. ``profile.py`` measures a few steps for ``road plan``; ``mfu.py`` is
the share of the device's peak that a training uses.
"""
