"""``road serve``: a finished model behind HTTP, in replicas of Ray Serve.

``server.py`` starts and stops the application; start reading there. ``deployment.py`` is the
replica, and the application that a cluster file names. ``haproxy.py`` puts HAProxy in front of the
replicas. ``api.py`` is the HTTP interface, ``request_checks.py`` refuses requests without the token
or too large, ``schemas.py`` has the types of the bodies, one pair for each kind of head, and
``row_queue.py`` batches the rows of waiting requests by length. Predictions themselves live in
``road_ray/inference/``.
"""
