"""Models: encoders of Hugging Face, heads for tasks, and their way in and out of directories.

``architectures.py`` lists the families of encoders, ``encoder.py`` builds and loads one,
``multitask.py`` joins an encoder with one head per task, ``heads/`` has the heads,
``weight_tying.py`` shares weights between generator and discriminator, ``flops.py`` counts
operations, and ``cpu_kernels.py`` has faster dropout and attention for CPUs. Losses are in
``objectives/``.
"""
