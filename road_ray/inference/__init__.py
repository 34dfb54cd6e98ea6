"""Predictions of a finished model for new rows: ``road predict`` and ``road_ray.load``.

``load_model.py`` loads a model directory, ``predictor.py`` predicts rows; start reading there.
``input_rows.py`` reads files of rows as a stream, ``predict_file.py`` writes the predictions of a
file and resumes what a killed run has left, ``label_rows.py`` those of a large language model.
``hub_upload.py`` uploads a model to a hub. Scores against labels are in ``evaluation/``, the
translation of a model into ONNX in ``recipes/export.py``.
"""
