"""YAML files: read with line numbers, written with comments, and their relative paths."""
