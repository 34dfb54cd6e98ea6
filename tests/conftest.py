"""What every test shares: one thread, no network, the real data when it is at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The directory of real data sets: ``ROAD_DATA``, or ``shared/data`` beside the checkout."""
    root = Path(os.environ.get("ROAD_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (root / "SHA256SUMS").is_file():
        pytest.skip(f"no real data at {root}")
    return root
