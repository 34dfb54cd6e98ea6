"""Pre-training corpora: raw text in documents, rows of token ids in memory-mapped shards.

Start with ``source.py``, which finds a corpus or has it built. ``documents.py`` streams documents,
``segments.py`` cuts them into one or two segments, ``encode.py`` turns blocks of documents into
rows, ``parallel.py`` does that on all cores, ``shards.py`` cuts rows into shards, ``build.py``
writes them to one of ``places.py``, ``dataset.py`` opens them, and ``length_schedule.py`` splits a
training into phases of short and long rows. Object stores: ``storage.py`` reads and writes,
``shard_cache.py`` opens a corpus there and keeps local copies.
"""
