"""Cost and speed of a model's arithmetic.

``encoder_flops.py`` counts floating-point operations, ``device_and_precision.py`` chooses the
device and the precision of matrix products, ``compilation.py`` compiles networks for batches of all
lengths, ``cpu_kernels.py`` has dropout and attention that train faster on a CPU.
"""
