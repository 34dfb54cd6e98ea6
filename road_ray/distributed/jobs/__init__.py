"""Ray jobs: a command line of ``road`` on a cluster.

``job_client.py`` starts, follows and stops jobs, ``cluster_profile.py`` says how to reach a
cluster, ``working_dir.py`` packs the files of a job.
"""
