"""Checkpoints: written whole or not at all, hashed, copied elsewhere, restored bit for bit."""
