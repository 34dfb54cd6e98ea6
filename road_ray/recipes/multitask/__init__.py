"""Configuration of ``road multitask``, multi-task pre-training: data sets are drawn at random, and
the gradient is averaged over their passes. The training is that of ``recipes/train/``.
"""
