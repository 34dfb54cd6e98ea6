"""Ensembles of teachers, which answer a batch with logits ``[M, B, ..., C]``.

``protocol.py`` has the base class, ``teacher.py`` one teacher, ``annotate.py`` attaches soft
targets to a stream of batches. ``local_ensemble.py`` runs the teachers in this process,
``out_of_fold_ensemble.py`` sends an example only to teachers that were not trained on it;
``stored_ensemble.py``, above, reads answers that were given once; the ensemble in Ray actors is in
``distributed/teachers/client.py``. ``cross_tokenizer/`` has teachers of other tokenizers.
"""
