"""Models: Hugging Face encoders, task heads, loading and export.

``architectures.py`` lists the families of encoders, ``encoder.py`` builds and loads one,
``multitask.py`` joins an encoder with one head per task, ``heads/`` has the heads,
``weight_tying.py`` shares weights between generator and discriminator, ``performance/`` counts
operations and chooses their precision. Losses are in ``objectives/``.
"""
