"""Distillation: ``road distill``.

``config.py`` has the keys, ``distill.py`` the recipe. ``teacher_list.py`` reads ``teachers.json``,
``locate_teachers.py`` finds the model directories, ``teacher_source.py`` starts them in actors and
opens the ensemble of a worker, ``teacher_record.py`` records the teachers of a run,
``weighting_rule.py`` takes their rule from the configuration, ``text_truncation.py`` checks that
they read whole rows. ``out_of_fold_teachers.py`` and ``born_again.py`` are variants,
``ensemble_eval.py`` evaluates the ensemble itself.
"""
