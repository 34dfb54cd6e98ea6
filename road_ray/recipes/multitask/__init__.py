"""Multi-task pre-training: data sets drawn at random, the gradient averaged over their passes.

``config.py`` has the keys, ``multitask.py`` the verb. The training is that of ``recipes/train/``.
"""
