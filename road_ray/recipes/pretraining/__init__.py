"""Pre-training: ``road pretrain``.

``build.py`` builds the objective of a configuration, ``early_probe.py`` fine-tunes copies of the
encoder, ``flops.py`` counts the operations of a training, ``preview.py`` shows corrupted rows.
Comparisons of objectives are in ``recipes/comparison/``.
"""
