"""The catalogue of tasks and data sets. To add a data set, add one entry.

``sentences.py`` has data sets of sentences, pairs and tagged words, ``questions.py`` those of
questions about a text or with choices, ``registry.py`` the tasks and the look-up by name.
"""

from road_ray.data.catalog.registry import DATASETS, TASKS, dataset, task

__all__ = ["DATASETS", "TASKS", "dataset", "task"]
