"""``road reproduce``: published comparisons at the user's scale, with several arms and seeds.

``finetuning_arms.py`` lists the comparisons of distillation, multi-task training and data: one
entry is one arm, given as overrides of the verbs. ``finetuning_plan.py`` builds the configurations
of a comparison, ``arm_data_files.py`` writes the data files that they share, ``reproduce.py`` runs
them and ``table.py`` makes the table. ``finetuning_estimate.py`` is ``--dry-run``. Comparisons of
pre-training objectives at equal cost are listed in ``pretraining_arms.py`` and run by
``pretraining_comparison.py``.
"""
