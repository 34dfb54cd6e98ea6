"""Teachers in Ray actors.

``actor.py`` hosts teachers, ``request_batcher.py`` joins requests of several students, ``pool.py``
starts actors, ``replicas.py`` chooses among copies, ``client.py`` is the ensemble as a student sees
it, ``answer_deadline.py`` decides what becomes of a slow teacher, ``shared_pool.py`` shares one
pool among runs, ``public_ensemble.py`` is ``road_ray.Ensemble``. Weighting rules and losses are in
``road_ray.distillation``.
"""
