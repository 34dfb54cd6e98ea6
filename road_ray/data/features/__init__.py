"""Features: examples turned into rows of token ids, with their labels.

``encode_examples.py`` picks the encoding of a task: ``text_rows.py`` for texts, pairs, choices and
tagged words, ``span_windows.py`` for windows of a context. All call the tokenizer as plain
``transformers`` does, so that special tokens, segments and truncation are its own. It stores
features on disk. ``../examples.py`` declares examples and features.
"""
