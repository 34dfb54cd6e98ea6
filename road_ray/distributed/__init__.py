"""All code that uses Ray.

``train/`` runs a training in Ray Train workers, ``tune/`` searches with Ray Tune and Optuna,
``serving/`` serves a model. ``teachers.py`` hosts teachers in actors, ``public_ensemble.py`` is
``road_ray.Ensemble``. ``connection.py`` joins a cluster or starts one on this machine, and manages
its token, ``job_client.py`` submits jobs to clusters, ``environment_check.py`` has the checks of
``road check``, ``room.py`` waits until a cluster has room for the requested actors.
``parallel_runs.py`` runs several trainings as tasks, ``batch_inference.py`` maps a model over items
with several actors, in order, and encodes a corpus on all machines.
"""
