"""Pre-training objectives, named as in their papers.

``registry.py`` lists them by name. ``electra.py`` has those that detect replaced tokens, ``mlm.py``
those that predict originals. Several share masked input, generators, sampling and corruption
(``generator.py``). To add one, write a module like ``mc_bert.py`` and enter its class in
``registry.py``.
"""
