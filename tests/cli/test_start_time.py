"""Commands that only read configuration answer at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_HEAVY = {"torch", "transformers", "ray", "datasets", "pyarrow", "numpy", "tokenizers"}
_MOST_CPU_SECONDS = 1.5
_CODE = """
import json, sys, time
from road_ray.cli import main
try:
    main()
finally:
    print(json.dumps([time.process_time(), sorted(sys.modules)]), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [
        ("presets", 0),
        ("presets electra_small", 0),
        ("schema distill", 0),
        ("schema sweep", 0),
        ("schema submit", 0),
        ("explain optimizer.peak_lr", 0),
        ("explain optimizr", 2),
        ("finetune typo=1", 2),
        ("reproduce typo=1", 2),
        ("plan finetune typo=1", 2),
        ("sweep weighted_kd typo=1", 2),
    ],
)
def test_configuration_loads_without_heavy_libraries(line, exit_code):
    done = subprocess.run(
        [sys.executable, "-c", _CODE, *line.split()],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == exit_code, done.stderr
    (last,) = [text for text in done.stderr.splitlines() if text.startswith("[")]
    seconds, modules = json.loads(last)
    allowed = {"numpy", "pyarrow"} if line.startswith("sweep") else set()  # of its data sets
    assert not (_HEAVY - allowed) & set(modules)
    assert seconds < _MOST_CPU_SECONDS
