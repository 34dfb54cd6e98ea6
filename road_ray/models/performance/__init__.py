"""Cost and speed of a model's arithmetic.

``flops.py`` counts floating-point operations, ``precision.py`` chooses the device and the precision
of matrix products, ``cpu_kernels.py`` has dropout and attention that train faster on a CPU.
"""
