"""Features: examples turned into rows of token ids, with their labels.

``encode_examples.py`` picks the encoding of a task and stores features on disk. ``text_rows.py``
makes the rows of texts, pairs, choices, tagged words and windows of a context. All call the
tokenizer as plain ``transformers`` does, so that special tokens, segments and truncation are its
own. ``../examples.py`` declares examples and features.
"""
