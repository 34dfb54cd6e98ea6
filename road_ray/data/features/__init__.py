"""Features: examples turned into rows of token ids, with their labels.

``examples_and_features.py`` declares both. ``encode_examples.py`` picks the encoding of a task;
``span_windows.py`` cuts contexts into windows with a stride, ``word_tags.py`` aligns words with
sub-tokens, ``text_rows.py`` joins texts with special tokens. ``batch_tokenization.py`` calls the
tokenizer and returns arrays of ``ragged.py``. ``cache.py`` stores features on disk.
"""
