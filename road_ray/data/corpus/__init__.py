"""Pre-training corpora: raw text in documents, rows of token ids in memory-mapped shards.

Start with ``prepare_corpus.py``, which finds a corpus or has it built. ``documents.py`` streams
documents, ``segments.py`` cuts them into one or two segments, ``encode_documents.py`` turns blocks
of documents into rows, ``parallel_encoding.py`` does that on all cores, ``cut_shards.py`` cuts rows
into shards, ``build_corpus.py`` writes them to one of ``shard_destination.py``,
``memory_mapped_corpus.py`` opens them, and ``length_schedule.py`` splits a training into phases of
short and long rows. Object stores: ``system/remote_files.py`` reads and writes, ``shard_cache.py``
opens a corpus there and keeps local copies.
"""
