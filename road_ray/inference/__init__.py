"""Predictions of a finished model for new rows: ``road predict`` and ``road_ray.load``.

``load_model.py`` loads a model directory, ``predictor.py`` predicts rows; start reading there.
``input_rows.py`` reads files of rows as a stream. ``tagged_words.py`` splits words and groups their
tags. ``predict_file.py`` writes the predictions of a file, ``label_rows.py`` those of a large
language model; ``partial_output.py`` keeps what a killed run has written for the next one.
``onnx_model.py`` translates a model into ONNX, compares the two, and runs it. ``hub_upload.py``
uploads a model to a hub. Scores against labels are in ``evaluation/``.
"""
