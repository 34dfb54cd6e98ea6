"""Commands that use a finished model: one module per command.

``predict.py`` is `road predict`, ``serve.py`` is `road serve`, ``push.py`` is `road push`. What
they call lives in ``road_ray/inference/`` and ``road_ray/distributed/``; a new command is
registered in ``road_ray/cli/app.py``.
"""
