"""All code that uses Ray.

``train/`` runs a training in Ray Train workers, ``teachers/`` hosts teachers in actors, ``tune/``
searches with Ray Tune and Optuna, ``jobs/`` submits jobs to clusters, ``serving/`` serves a model.
``local_cluster.py`` starts a cluster on this machine, ``cluster_token.py`` manages its token,
``room.py`` waits until a cluster has room for the requested actors. ``parallel_runs.py`` runs
several trainings as tasks, ``corpus_encoding.py`` encodes a corpus on all machines,
``batch_inference.py`` maps a model over items with several actors, in order.
"""
