"""Predictions of a finished model for new rows: ``road predict`` and ``road_ray.load``.

``load_model.py`` loads a model directory, ``predictor.py`` predicts rows; start reading there.
``input_rows.py`` reads files of rows as a stream. ``entities.py`` groups the tags of words.
``predict_file.py`` writes the predictions of a file so that a killed run can be resumed.
``onnx_export.py`` translates a model into ONNX and compares the two, ``onnx_model.py`` runs it.
``hub_upload.py`` uploads a model to a hub. Scores against labels are in ``evaluation/``.
"""
