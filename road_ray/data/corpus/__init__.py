"""Pre-training corpora: raw text in documents, rows of token ids in memory-mapped shards.

Start with ``prepare_corpus.py``, which finds a corpus or has it built. ``documents.py`` streams
documents, ``build_corpus.py`` turns blocks of them into rows of one or two segments on all cores
and writes the rows in shards, and ``memory_mapped_corpus.py`` opens them, also those of an object
store through local copies. ``system/remote_files.py`` reads and writes object stores.
"""
