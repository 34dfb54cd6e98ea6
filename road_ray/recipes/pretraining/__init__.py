"""Pre-training: ``road pretrain``.

``pretrain.py`` trains, and fine-tunes copies of the encoder meanwhile; ``build_objective.py``
builds the objective of a configuration; ``preview.py`` counts the operations of a training and
shows corrupted rows. Comparisons of objectives are in ``experiment/``.
"""
