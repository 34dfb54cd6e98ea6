"""The documentation site: ``make docs``. ``build.py`` makes it.

``iframe-worker.js`` is version 1.0.4 of <https://github.com/squidfunk/iframe-worker> (MIT). The
generator's search needs it on pages that are opened as files, and would have browsers fetch it.
"""
