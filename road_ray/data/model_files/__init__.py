"""Directories of trained models: ``locate_model.py`` finds them, ``remote_code.py`` refuses files
that would make a loader run or fetch something.
"""
