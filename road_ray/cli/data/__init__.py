"""Commands that show and prepare data.

``init.py`` guesses the task of a file and writes a configuration, ``commands.py`` has ``road
data``, ``store.py`` has ``road data store``. They call ``road_ray/data``.
"""
