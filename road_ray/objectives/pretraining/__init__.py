"""Pre-training objectives, one a module, named as in their papers.

``registry.py`` lists them by name. ``parts/`` has what several share: masked input, generators,
sampling, corruption, detection. To add one, write a module like ``mlm.py`` and enter its class in
``registry.py``.
"""
