"""The directory of a run: opened by one process, recorded, resumed by the same command, finished.

Read ``run.py`` first. ``recorded_config.py`` and ``input_files.py`` compare a directory with the
configuration and the files that it is opened with, ``manifest.py`` records the files of a finished
run, ``model_record.py`` writes the record of a model, ``trained_rows.py`` finds its data again.
"""
