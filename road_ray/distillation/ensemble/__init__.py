"""Ensembles of teachers: batches in, logits ``[M, B, ..., C]`` out.

``base.py`` has the protocol, the ensemble of this process and ``annotate``, which attaches soft
targets to a stream of batches; ``out_of_fold.py`` asks only teachers that have not seen an example;
``stored.py`` reads stored logits and asks for the rest. The ensemble in Ray actors is in
``distributed/teachers/client.py``.
"""
