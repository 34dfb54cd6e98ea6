"""Data: from files in published layouts to batches of tensors.

``task_and_dataset.py`` declares tasks and data sets, ``examples.py`` their rows, ``catalog.yaml``
lists them, ``readers/`` read one file layout each, ``text_rows.py`` turns examples into token ids
and ``encode_examples.py`` keeps them, ``corpus/`` builds and reads pre-training shards,
``batching.py`` and ``mixing.py`` decide which rows make a step, ``training_rows.py`` corrects
labels and adds rows without labels. Start with ``load_split.py``, which finds a data set and puts
the parts together. To add a data set, add an entry to ``catalog.yaml``; for a new file layout, add
a module to ``readers/``. Nothing here uses models or training.
"""
