"""Ray jobs: a command line of ``road`` on a cluster.

``job_client.py`` packs the files of jobs, starts, follows and stops them, ``cluster_profile.py``
says how to reach a cluster.
"""
