"""Teachers in Ray actors.

``actor.py`` hosts a teacher, ``pool.py`` starts actors, ``client.py`` is the ensemble as a student
sees it, ``public_ensemble.py`` is ``road_ray.Ensemble``.
"""
