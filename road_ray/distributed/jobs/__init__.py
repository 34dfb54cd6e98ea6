"""Ray jobs: a command line of ``road`` on a cluster, and corpora built by all its machines."""
