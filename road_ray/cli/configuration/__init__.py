"""Commands that describe configurations: presets, schemas and keys.

``presets.py`` is `road presets`, ``schema.py`` `road schema`, ``explain.py`` `road explain`;
``reference.py`` writes the reference page of the documentation.
"""
