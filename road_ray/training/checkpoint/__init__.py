"""Checkpoints: written atomically, hashed, mirrored to other storage, and restored bit for bit."""
