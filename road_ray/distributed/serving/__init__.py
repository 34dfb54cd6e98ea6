"""``road serve``: a finished model behind HTTP.

``server.py`` starts and stops the server; start reading there. One copy of a model is served by the
process of the command. ``deployment.py`` is a replica of Ray Serve, for several
copies and for clusters, and the application that a cluster file names. ``api.py`` is the HTTP
interface of both: it has the types of rows, refuses requests without the token, from other sites
or too large, and batches the rows of waiting requests. Predictions live in
``road_ray/inference/``.
"""
