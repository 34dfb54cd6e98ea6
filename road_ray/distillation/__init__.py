"""Distillation: teacher ensembles, their weighting and storage, and the losses of the student.

A batch takes this way: ``annotate.py`` sends it to an ensemble (``ensemble.py``, or
``stored_ensemble.py`` over tables on disk) of teachers (``teacher.py``, with
``cross_tokenizer.py`` for other tokenizers), ``weighting.py`` combines their logits by a rule
(``correctness`` is ROaD's Algorithm 2), and ``losses.py`` has the loss. ``teacher_directory.py``
has a teacher's identity and the checks of its labels, tokenizer and files.
``hidden_state_matching.py`` adds losses on hidden states, ``hf_trainer.py`` distils in Hugging
Face's Trainer. Teachers in Ray actors are in ``distributed/teachers.py``, the recipe in
``recipes/train/``. A weighting rule is one function, of ``weighting.py`` or of a module of the
user's own.
"""
