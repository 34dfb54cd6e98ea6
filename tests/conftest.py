"""What every test shares: one thread, no network, the miniature world, the command ``road``, the
real data when it is at hand.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
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


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded data set, a twentieth of it, as a data root. Not to be written to."""
    from road_ray.data import miniature

    return miniature.write(tmp_path_factory.mktemp("data") / "world", size=0.05)


@dataclass(frozen=True)
class Said:
    """What a command returned and printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def road(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """``road("finetune", "init=...")`` in this process: exit code, standard output and error."""

    def run(*arguments: object) -> Said:
        from road_ray.cli import main

        monkeypatch.setattr("sys.argv", ["road", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return Said(int(ended.value.code or 0), out, err)

    return run
