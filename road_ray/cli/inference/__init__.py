"""Commands that use a finished model: one module per command.

``predict.py`` is `road predict`. What they call lives in ``road_ray/inference/``; a new command is
registered in ``road_ray/cli/app.py``.
"""
