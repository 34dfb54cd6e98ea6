"""Fine-tuning: ``road finetune`` and ``road teachers``.

``config.py`` has the keys, ``finetune.py`` trains one model with ``recipes/train/``,
``seeds_and_datasets.py`` one for each seed and data set of a pool, ``train_teachers.py`` an
ensemble of teachers.
"""
