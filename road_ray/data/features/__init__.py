"""Features: examples turned into rows of token ids, with their labels.

``types.py`` declares examples and features. ``encode.py`` picks the encoding of a task;
``span_windows.py`` cuts contexts into windows with a stride, ``tags.py`` aligns words with
sub-tokens, ``rows.py`` joins texts with special tokens. ``cache.py`` stores features on disk.
"""
