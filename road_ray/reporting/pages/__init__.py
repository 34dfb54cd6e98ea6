"""HTML pages: ``page.py`` renders blocks; the other modules build one kind of page each."""
