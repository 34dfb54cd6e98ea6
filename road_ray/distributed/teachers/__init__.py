"""Teachers in Ray actors.

``client.py`` has the actor and the ensemble as a student sees it, ``pool.py`` starts actors,
``public_ensemble.py`` is ``road_ray.Ensemble``.
"""
