"""Teachers in Ray actors.

``actor.py`` hosts a teacher, ``request_batcher.py`` joins requests of several students, ``pool.py``
starts actors, ``client.py`` is the ensemble as a student sees it, ``public_ensemble.py`` is
``road_ray.Ensemble``. Weighting rules and losses are in ``road_ray.distillation``.
"""
