"""Services of the operating system and of storage, independent of training.

``operating_system.py`` has cores, processes, memory, locks and the sync of a file to the disk,
``files.py`` paths, compressed streams, JSON records, staged directories and sizes and digests,
``remote_files.py`` files in an object store or on the hub.
"""
