"""How costs grow: ``python docs/results/growth.py CURVE`` prints a JSON line a size, then the law.

CURVE is ``store`` (rows of a teacher store), ``report`` (rows of a run's journal), ``runs`` (runs
of ``road runs list``) or ``coordinator`` (workers that send heartbeats). ``--most N`` ends with
that size. The law is the exponent of a power law, of the two largest sizes and fitted to all.
``python docs/results/growth.py figure FILE...`` draws the lines of several curves.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

SIZES = {
    "store": (10_000, 100_000, 1_000_000, 10_000_000),
    "report": (1_000, 10_000, 100_000, 1_000_000),
    "runs": (50, 200, 1_000, 5_000),
    "coordinator": (16, 64, 256),
}
SHARDS = 20
READ_ROWS = 2_000


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of an action, which other work on the machine changes less than the
    wall clock, and its result.
    """
    began = time.process_time()
    result = action()
    return time.process_time() - began, result


def store(size: int, place: Path) -> dict[str, float]:
    """Fill, open, read and merge a store of three classes."""
    from road_ray.data.catalog import task
    from road_ray.distillation.logit_store.maintenance import list_teachers, merge
    from road_ray.distillation.logit_store.rows import Rows
    from road_ray.distillation.logit_store.shards import write_shard
    from road_ray.distillation.logit_store.teacher_store import TeacherStore

    teacher = {"directory": "t0", "labels": ["a"], "order": None, "precision": "fp32"}
    teacher |= {name: "0" * 64 for name in ("weights_sha256", "config_sha256", "tokenizer_sha256")}
    keys = np.random.default_rng(0).integers(0, 2**63, (size, 2)).astype(np.uint64)
    empty = TeacherStore(place, teacher, task("nli"))

    def fill() -> None:
        for some in np.array_split(keys, SHARDS):
            counts = np.full(len(some), 3, np.int64)
            write_shard(empty.directory, some, counts, np.zeros(3 * len(some), np.float16))

    filled, _ = timed(fill)
    empty.close()
    before = peak_mb()
    opened, whole = timed(lambda: TeacherStore(place, teacher, task("nli")))
    drawn = keys[np.random.default_rng(1).integers(0, size, READ_ROWS)]
    rows = Rows(drawn, np.ones((READ_ROWS, 8), np.bool_))
    read, answers = timed(lambda: whole.read(rows))
    assert len(answers) == READ_ROWS
    whole.close()
    merged, _ = timed(lambda: merge(list_teachers(place)[0]))
    found = {"fill_s": filled, "open_s": opened, "read_2000_s": read, "merge_s": merged}
    return found | {"memory_mb": peak_mb() - before}


def report(size: int, place: Path) -> dict[str, float]:
    """Read a run whose journal has so many rows, and write its page."""
    from road_ray.reporting.records.run_record import read_run
    from road_ray.reporting.report import report as write_report

    write_run(place, size)
    before = peak_mb()
    read, _ = timed(lambda: read_run(place))
    page, paths = timed(lambda: write_report([place]))
    found = {"read_s": read, "page_s": page, "page_kb": paths[0].stat().st_size / 1e3}
    return found | {"memory_mb": peak_mb() - before}


def write_run(place: Path, rows: int) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.resolved.yaml").write_text("seed: 1\ntraining:\n  steps: 100\n")
    (place / "metrics.json").write_text('{"eval/sst2/accuracy": 0.9}')
    with (place / "metrics.jsonl").open("w") as file:
        for step in range(1, rows + 1):
            row = {"step": step, "train/sst2": 1 / step, "train/lr": 1e-4, "train/grad_norm": 1.5}
            row |= {"time/step_seconds": 0.1, "time/tokens_per_second": 900.0}
            file.write(json.dumps(row) + "\n")


def runs(size: int, place: Path) -> dict[str, float]:
    """List so many runs of ten journal rows each."""
    from road_ray.reporting.records.run_record import read_run, runs_below

    for number in range(size):
        write_run(place / f"run-{number:05d}", 10)
    before = peak_mb()
    listed, found = timed(lambda: [read_run(path) for path in runs_below(place)])
    assert len(found) == size
    return {"list_s": listed, "memory_mb": peak_mb() - before}


def coordinator(size: int, place: Path) -> dict[str, float]:
    """Send heartbeats of so many workers, twice a second each, for ten seconds."""
    import ray

    from road_ray.distributed.train.coordinator import CoordinatorActor

    if not ray.is_initialized():
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    actor = ray.remote(num_cpus=0)(Measured(CoordinatorActor)).remote()
    began = ray.get(actor.cpu_seconds.remote())
    waits: list[float] = []
    stop = time.monotonic() + 10

    def beat(rank: int) -> None:
        while (now := time.monotonic()) < stop:
            ray.get(actor.beat.remote(rank, os.getpid(), "node", 1, "[32, 128]"))
            waits.append(time.monotonic() - now)
            time.sleep(max(0.0, 0.5 - (time.monotonic() - now)))

    threads = [threading.Thread(target=beat, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = ray.get(actor.cpu_seconds.remote()) - began
    ray.kill(actor)
    found = {"actor_cpu_share": used / 10, "beats": len(waits)}
    return found | {"wait_ms_median": 1e3 * float(np.median(waits))}


def Measured(base: type) -> type:
    """Return an actor class that also tells the CPU time of its process."""

    class Told(base):  # type: ignore[misc, valid-type]
        def cpu_seconds(self) -> float:
            return time.process_time()

    return Told


CURVES = {"store": store, "report": report, "runs": runs, "coordinator": coordinator}


def in_child(action: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Return what ``action`` returns in a child process, whose memory begins anew."""
    read, write = os.pipe()
    if os.fork() == 0:
        with os.fdopen(write, "w") as pipe:
            json.dump(action(), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.wait()
    return dict(json.loads(text))


def measured(curve: str, most: int | None) -> Iterator[dict[str, Any]]:
    for size in SIZES[curve]:
        if most is None or size <= most:
            with tempfile.TemporaryDirectory() as place:
                action = partial(CURVES[curve], size, Path(place) / "x")
                found = action() if curve == "coordinator" else in_child(action)
            yield {"curve": curve, "size": size} | {k: round(v, 4) for k, v in found.items()}


def exponents(lines: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the exponent between the two largest sizes, and over all sizes, of every quantity."""
    found = {}
    for name in lines[0]:
        points = [
            (math.log(line["size"]), math.log(line[name]))
            for line in lines
            if name not in ("curve", "size") and line[name] > 0
        ]
        if len(points) > 1:
            x, y = zip(*points, strict=True)
            last = (y[-1] - y[-2]) / (x[-1] - x[-2])
            found[name] = [round(last, 2), round(float(np.polyfit(x, y, 1)[0]), 2)]
    return found


def figure(files: list[str]) -> None:
    """Draw every quantity in seconds of the given files beside a straight line of exponent 1."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawn = [Path(file) for file in files]
    _, axes = plt.subplots(1, len(drawn), figsize=(4 * len(drawn), 3.2), squeeze=False)
    for axis, path in zip(axes[0], drawn, strict=True):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines = [line for line in lines if "size" in line]
        sizes = [line["size"] for line in lines]
        for name in lines[0]:
            if name.endswith("_s"):
                axis.loglog(sizes, [line[name] for line in lines], "o-", label=name[:-2])
        start = max(1e-4, *(lines[0][name] for name in lines[0] if name.endswith("_s")))
        grown = [start * size / sizes[0] for size in sizes]
        axis.loglog(sizes, grown, ":", color="grey", label="linear")
        axis.set(title=lines[0]["curve"], xlabel="size", ylabel="CPU seconds")
        axis.legend(fontsize=7)
    plt.tight_layout()
    plt.savefig(Path(__file__).with_name("growth.png"), dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("curve", choices=[*CURVES, "figure"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--most", type=int)
    given = parser.parse_args()
    if given.curve == "figure":
        figure(given.files)
        return
    lines = []
    for line in measured(given.curve, given.most):
        lines.append(line)
        print(json.dumps(line), flush=True)
    print(json.dumps({"curve": given.curve, "exponents": exponents(lines)}))


if __name__ == "__main__":
    main()
