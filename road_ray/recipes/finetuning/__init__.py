"""Fine-tuning: ``road finetune`` and ``road teachers``.

``finetune.py`` trains one model, ``seeds_and_datasets.py`` one for each seed and data set of a
pool, ``train_teachers.py`` an ensemble of teachers, ``model_cost.py`` measures the trained model.
"""
