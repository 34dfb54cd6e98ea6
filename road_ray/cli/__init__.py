"""The command ``road``: one module for each verb or group of verbs, over ``app.py``.

``app.py`` has the application, the exit codes and the rendering of results. ``options.py`` has the
options that verbs share, and turns arguments into a configuration. ``configuration.py`` writes and
describes configurations, ``data.py`` reads data, ``inference.py`` uses finished models. A verb
calls a recipe (``road_ray.recipes``). Heavy libraries load with the verb that needs them. To add a
verb that runs a recipe, add an entry to ``road_ray.verbs``.
"""

import sys

try:
    from road_ray.cli.app import main
except KeyboardInterrupt:  # while modules load; `main` has its own way of stopping
    sys.exit(6)

__all__ = ["main"]
