"""Answer spans: from start and end logits to texts, and the decision to abstain.

Start with ``span_decoding.py``; ``span_search.py`` finds the best spans of a window and
``joint_spans.py`` those of the joint head. ``no_answer_threshold.py`` decides when a model
abstains and writes BERT's files. The official scores are in ``../squad.py``.
"""
