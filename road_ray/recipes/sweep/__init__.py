"""Sweeps: trials are runs of the very same recipes, drawn from a file of `search_spaces/`."""
