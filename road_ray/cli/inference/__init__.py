"""Commands that use a finished model: one module per command.

``predict.py`` is `road predict`, ``export.py`` is `road export`, ``serve.py`` is `road serve`,
``push.py`` is `road push`. They call ``road_ray/inference/`` and ``road_ray/distributed/``. To add
a command, register it in ``road_ray/cli/app.py``.
"""
