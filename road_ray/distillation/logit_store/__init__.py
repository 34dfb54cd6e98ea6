"""Store of teacher logits: raw logits on disk, keyed by the content of a row.

``teacher_store.py`` is the store of one teacher, ``row_keys.py`` the keys and values of rows,
``logit_shards.py`` the files (written atomically, each with its sha256), ``maintenance.py`` lists,
verifies, merges and prunes stores.
"""
