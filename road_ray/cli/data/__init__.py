"""Commands that look at data and prepare it.

``init.py`` guesses what a file holds and writes a configuration, ``commands.py`` has ``road data``,
``store.py`` ``road data store``. What they call is in ``road_ray/data``.
"""
