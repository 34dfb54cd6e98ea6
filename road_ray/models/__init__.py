"""Models: Hugging Face encoders, task heads, loading and export.

``architectures.py`` lists the families of encoders, ``encoder.py`` builds and loads one,
``multitask.py`` joins an encoder with one head per task, ``heads.py`` has the heads,
``language_model.py`` the heads of language models and the weights that generator and discriminator
share, ``precision.py`` chooses device and precision, ``attention.py`` the attention, and has that
of CPUs. ``load_weights.py`` reads and checks stored weights, merges LoRA adapters and matches
labels by name. Losses are in ``objectives/``.
"""
