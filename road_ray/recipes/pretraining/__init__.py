"""Pre-training: ``road pretrain``.

``build.py`` turns a configuration into an objective, ``early_probe.py`` fine-tunes a copy now and
then, ``flops.py`` counts what a training costs, ``preview.py`` shows rows as the networks see them.
Comparisons of objectives are in ``recipes/comparison/``.
"""
