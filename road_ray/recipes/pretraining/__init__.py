"""Pre-training: ``road pretrain``, and comparisons of objectives by ``road reproduce``.

``build.py`` turns a configuration into an objective, ``probe.py`` fine-tunes a copy now and then,
``flops.py`` counts what a training costs, ``preview.py`` shows rows as the networks see them,
``comparisons.py`` declares published comparisons.
"""
