"""Pre-training objectives, one a module, named as in their papers.

``registry.py`` lists them by name. Several share masked input, generators, sampling and corruption
(``generator.py``) and the metrics of ``detection.py``. To add one, write a module like ``mlm.py``
and enter its class in ``registry.py``.
"""
