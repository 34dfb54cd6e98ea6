"""Multi-task pre-training: data sets drawn at random, the gradient averaged over their passes.

``multitask.py`` is the recipe, ``mixture_streams.py`` reads the data sets and draws the steps,
``mixture_teachers.py`` attaches the teachers that some of them have.
"""
