"""Compare the estimate of ``road reproduce NAME --dry-run`` with the CPU time that the comparison
takes.

Usage: python docs/results/dry_run.py RUN NAME KEY=VALUE...     (prints a row of dry-run.md)

RUN must not exist. The estimate and the comparison run in this process, one after the other.
"""

import sys
import time
from pathlib import Path

from road_ray.experiment.config import ReproduceConfig
from road_ray.experiment.estimate import estimate
from road_ray.experiment.run import reproduce
from road_ray.verbs import configure


def main(run: Path, name: str, keys: list[str]) -> None:
    given = ["console=quiet", f"run_dir={run}", f"comparison={name}"]
    config = configure("reproduce", overrides=[*given, *keys])
    assert isinstance(config, ReproduceConfig)
    began = time.process_time()
    found = estimate(config)
    estimated, costs = 3600 * found["hours"], time.process_time() - began
    began = time.process_time()
    reproduce(config)
    took = time.process_time() - began
    cells = [name, str(found["runs"]), f"{costs:.0f} s", f"{estimated:.0f} s", f"{took:.0f} s"]
    print("| " + " | ".join([*cells, f"{estimated / took - 1:+.0%}"]) + " |")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
