"""HTML pages: ``page.py`` renders blocks; the others each build one kind of page from a record."""
