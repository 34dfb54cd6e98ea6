"""Pre-training objectives, named as in their papers.

``registry.py`` lists them by name. ``electra.py`` has those that detect replaced tokens, ``mlm.py``
those that predict originals, ``candidates.py`` those that choose among a few. Several share masked
input, generators, sampling and corruption (``generator.py``). To add one, write a class and enter
it in ``registry.py``.
"""
