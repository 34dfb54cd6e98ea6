"""The directory of a run: opened by one process, recorded, resumed by the same command, finished.

Read ``run.py`` first. ``recorded_config.py`` compares a directory with the configuration that it is
opened with, and verifies the files of a finished run; ``input_files.py`` compares the files that it
reads; ``model_record.py`` writes the record of a model, and finds its data again.
"""
