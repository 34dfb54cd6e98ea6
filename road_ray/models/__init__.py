"""Models: Hugging Face encoders, task heads, loading and export.

``architectures.py`` lists the families of encoders, ``encoder.py`` builds and loads one,
``multitask.py`` joins an encoder with one head per task, ``heads.py`` has the heads,
``language_model.py`` the heads of language models and the weights that generator and discriminator
share, ``precision.py`` chooses device and precision, ``cpu_kernels.py`` has dropout and attention
that train faster on a CPU. ``load_weights.py`` reads and checks stored weights and merges LoRA
adapters, ``label_order.py`` matches labels by name. Losses are in ``objectives/``.
"""
