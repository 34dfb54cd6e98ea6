"""What tests read of a run's directory."""

from __future__ import annotations

from road_ray.recipes.run_directory.run import Run


def weights(run: Run) -> bytes:
    """The file of the trained model's weights."""
    return (run.hf_dir / "model.safetensors").read_bytes()
