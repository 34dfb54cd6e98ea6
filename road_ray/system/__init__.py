"""Services of the operating system, made the same everywhere; nothing here knows of training.

``operating_system.py`` has cores, processes and the sync of a file to the disk, ``file_lock.py``
locks, ``compression.py`` streams of compressed files, ``json_file.py`` records that road_ray wrote
itself, ``paths.py`` paths from the configuration and the cache directory.
"""
