"""Pre-training: ``road pretrain``.

``build_objective.py`` builds the objective of a configuration, ``early_probe.py`` fine-tunes copies
of the encoder, ``pretraining_flops.py`` counts the operations of a training, ``masking_preview.py``
shows corrupted rows. Comparisons of objectives are in ``experiment/``.
"""
