"""Services of the operating system and of storage, independent of training.

``operating_system.py`` has cores, processes, memory and the sync of a file to the disk,
``file_lock.py`` locks, ``file_hashes.py`` sizes and digests of files, ``compression.py`` streams of
compressed files, ``json_file.py`` JSON records, ``paths.py`` paths from the configuration and the
cache directory, ``remote_files.py`` files in an object store, on a web server or on the hub.
"""
