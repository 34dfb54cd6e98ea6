"""Ensembles of teachers, which answer a batch with logits ``[M, B, ..., C]``.

``base.py`` has the protocol, the ensemble of this process and ``annotate``, which attaches soft
targets to a stream of batches; ``out_of_fold.py`` sends an example only to teachers that were not
trained on it; ``stored.py`` reads stored logits and requests the rest. The ensemble in Ray actors
is in ``distributed/teachers/client.py``.
"""
