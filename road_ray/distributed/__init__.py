"""Everything that uses Ray, and nothing else does.

``train/`` runs a training in Ray Train workers, ``teachers/`` hosts teachers in actors, ``tune/``
searches with Ray Tune and Optuna, ``jobs/`` submits jobs to clusters. ``local_cluster.py`` starts a
cluster on this machine, ``auth.py`` has its token, ``placement.py`` checks that what is asked fits.
"""
