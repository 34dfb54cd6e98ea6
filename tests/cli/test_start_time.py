"""Commands that only read configuration answer at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_HEAVY = {"torch", "transformers", "ray", "datasets", "pyarrow", "numpy", "tokenizers"}
_MOST_CPU_SECONDS = 1.5
_RIGHT = ("--help", "presets", "presets electra_small", "explain optimizer.peak_lr")
_RIGHT += ("schema distill", "schema sweep", "schema submit")
_WRONG = ("explain optimizr", "finetune typo=1", "reproduce typo=1", "plan finetune typo=1")
_WRONG += ("sweep weighted_kd typo=1",)
_EXIT_CODES = dict.fromkeys(_RIGHT, 0) | dict.fromkeys(_WRONG, 2)
# Each line in a fork of a process that has imported the command and nothing else.
_CODE = """
import json, os, sys, time
from road_ray.cli import main

imported = time.process_time()
for line in sys.argv[1:]:
    if os.fork():
        os.wait()
        continue
    sys.argv[1:] = line.split()
    code = None
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
    answer = [code, imported + time.process_time(), sorted(sys.modules)]
    print("\\nANSWER", json.dumps([line, *answer]), file=sys.stderr, flush=True)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def answers():
    """Exit code, CPU seconds from the start of Python on, and imported modules of each line."""
    root, command = Path(__file__).parents[2], [sys.executable, "-c", _CODE, *_EXIT_CODES]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    rows = [text[7:] for text in done.stderr.splitlines() if text.startswith("ANSWER ")]
    return {line: rest for line, *rest in map(json.loads, rows)}, done.stderr


@pytest.mark.parametrize(("line", "exit_code"), _EXIT_CODES.items())
def test_configuration_loads_without_heavy_libraries(line, exit_code, answers):
    by_line, said = answers
    assert line in by_line, said
    code, seconds, modules = by_line[line]
    assert code == exit_code, said
    allowed = {"numpy", "pyarrow"} if line.startswith("sweep") else set()  # of its data sets
    assert not (_HEAVY - allowed) & set(modules)
    assert seconds < (_MOST_CPU_SECONDS / 3 if line == "--help" else _MOST_CPU_SECONDS)
