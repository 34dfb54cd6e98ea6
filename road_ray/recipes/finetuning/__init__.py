"""Fine-tuning: ``road finetune`` and ``road teachers``.

``config.py`` has the keys. ``recipes/train/`` trains one model, ``seeds_and_datasets.py`` one for
each seed and data set of a pool, ``train_teachers.py`` an ensemble of teachers.
"""
