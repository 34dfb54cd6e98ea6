"""Answer spans: from start and end logits to texts, abstention and SQuAD's scores.

Start with ``span_answers.py``; ``span_search.py`` finds the best spans of a window and
``joint_spans.py`` those of the joint head. ``no_answer_threshold.py`` decides when a model
abstains, ``squad.py`` has the official exact match and F1, ``prediction_files.py`` writes BERT's
files.
"""
