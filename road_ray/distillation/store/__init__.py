"""The store of teacher logits: raw answers on disk, found by the content of a row.

``store.py`` is the store of one teacher, ``rows.py`` the keys and values of rows, ``shards.py`` the
files (whole or not there, each with its sha256), ``maintenance.py`` lists, verifies, merges and
prunes.
"""
