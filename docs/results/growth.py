"""How costs grow: ``python docs/results/growth.py CURVE`` prints a JSON line a size, then the law.

CURVE is ``store`` (rows of a teacher's table), ``report`` (rows of a run's journal), ``runs`` (runs
of ``road runs list``), ``sweep`` (what the driver does for so many trials, without running them),
``trials`` (trials of no work on Ray Tune), ``workers`` (of a training: its start, and its recovery
after one is killed), ``students`` (that share one replica of a teacher) or ``replicas`` (of a
teacher that eight students share). ``--most N`` ends with that size. The law is the exponent of a
power law, of the two largest sizes and fitted to all.
``python docs/results/growth.py figure FILE... --output PNG`` draws the lines of several curves.
"""

import argparse
import json
import math
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the checkout, which has `tests`

SIZES = {
    "store": (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000),
    "report": (1_000, 10_000, 100_000, 1_000_000),
    "runs": (50, 200, 1_000, 5_000),
    "sweep": (100, 1_000, 5_000),
    "trials": (100, 1_000, 5_000),
    "workers": (1, 2, 4, 8, 16),
    "students": (1, 2, 4, 8, 16, 32),
    "replicas": (1, 2, 4, 8),
}
ON_RAY = ("trials", "workers", "students", "replicas")
STUDENT_SECONDS = 10.0
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
    """Write, open and read a table of answers of three classes."""
    from road_ray.distillation.stored_ensemble import find, open_table, write_table

    keys = np.random.default_rng(0).integers(0, 2**63, (size, 2)).astype(np.uint64)
    counts = np.full(size, 3, np.int64)
    place.mkdir(parents=True, exist_ok=True)
    values = np.zeros(3 * size, np.float16)
    filled, directory = timed(lambda: write_table(place, keys, counts, values))
    drawn = keys[np.random.default_rng(1).integers(0, size, READ_ROWS)]
    before = peak_mb()
    opened, table = timed(lambda: open_table(directory, check=False))
    read, answers = timed(lambda: table["answer"].take(find(table, drawn)).to_pylist())
    assert len(answers) == READ_ROWS
    found = {"fill_s": filled, "open_s": opened, "read_2000_s": read}
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


def sweep_of(size: int, place: Path) -> Any:
    """Return the configuration of a sweep of random trials that keeps the best model."""
    from road_ray.config import load
    from road_ray.recipes.sweep.config import SweepConfig

    space = {"optimizer.peak_lr": {"loguniform": [1e-5, 1e-3]}, "seed": {"uniform": [0, 1]}}
    base = {"verb": "finetune", "name": "growth", "metric": "eval/sst2/accuracy", "space": space}
    base |= {
        "trials": size,
        "sampler": "random",
        "scheduler": "none",
        "keep": "best",
        "max_concurrent": 2,
    }
    return load(SweepConfig, base=base | {"run_dir": str(place), "console": "quiet"})


def outcome(number: int) -> dict[str, Any]:
    """Return the record's fields of a trial whose figure is a number of no pattern."""
    value = float(np.random.default_rng(number).random())
    return {"values": (value,), "figures": {"eval/sst2/accuracy": value, "cost/seconds": 1.0}}


def sweep(size: int, place: Path) -> dict[str, float]:
    """Ask and tell the study of a sweep as its driver does, open it again, and write its page."""
    from dataclasses import replace

    from road_ray.config import to_yaml
    from road_ray.distributed.tune import one_trial
    from road_ray.distributed.tune.driver import StudySearch, search
    from road_ray.distributed.tune.study import open_study
    from road_ray.recipes.sweep.sweep import RECORD
    from road_ray.reporting.report import report as write_report

    config = sweep_of(size, place)
    place.mkdir(parents=True)
    (place / RECORD).write_text(to_yaml(config))
    before = peak_mb()

    def drive() -> None:
        study = open_study(config, "growth", place)
        searcher = StudySearch(study, config, place, lambda record: None)
        for number in range(size):
            asked = searcher.suggest(str(number))
            assert asked["number"] == number
            record = one_trial.read(place, number)
            assert record is not None
            ended = replace(record, state="complete", **outcome(number))
            searcher.on_trial_complete(str(number), {one_trial.RECORD: ended})

    driven, _ = timed(drive)
    again, records = timed(lambda: search(config, "growth", place, none_needed))
    assert len(records) == size
    page, paths = timed(lambda: write_report([place]))
    found = {"drive_s": driven, "resume_s": again, "page_s": page}
    found["page_kb"] = paths[0].stat().st_size / 1e3
    return found | {"memory_mb": peak_mb() - before}


def none_needed() -> Any:
    raise AssertionError("a finished sweep starts no cluster")


def trials(size: int, place: Path) -> dict[str, float]:
    """Run a sweep whose trials do nothing; return the CPU seconds of the driver, and wall seconds
    for all.
    """
    from dataclasses import replace

    from road_ray.distributed.tune.driver import search

    def run(directory: Path, record: Any, on_report: object) -> Any:
        return replace(record, **outcome(int(directory.name)))

    def searched(size: int, place: Path) -> Any:
        place.mkdir(parents=True)
        return search(sweep_of(size, place), "growth", place, partial(nullcontext, run))

    searched(1, place.with_name("first"))  # imports Ray Tune
    before, began = peak_mb(), time.monotonic()
    driven, records = timed(lambda: searched(size, place))
    assert [record.state for record in records] == ["complete"] * size
    found = {"driver_s": driven, "wall_s": time.monotonic() - began}
    return found | {"memory_mb": peak_mb() - before}


def workers(size: int, place: Path) -> dict[str, float]:
    """Train on so many workers, the first of which kills itself; return wall seconds from the
    command to the first step, and between the steps around the kill.
    """
    from tests.chaos.runs import InThread, killed, trained
    from tests.conftest import PRETRAINING

    settings = PRETRAINING | {"data.root": "miniature", "data.shards": str(place.parent / "shards")}
    settings |= {"training.steps": 20, "training.save_every_steps": 4, "data.batch_size": 32}
    settings |= {"training.log_every_steps": 1}
    began = time.monotonic()
    work = partial(trained, settings, place, partial(killed, 0), workers=size)
    training = InThread(place, work)
    while training.is_alive() and not training.watched.look():
        time.sleep(0.02)
    started = time.monotonic() - began
    while training.is_alive():
        training.watched.look()
        time.sleep(0.02)
    if training.error:
        raise training.error
    assert (place / "killed").exists()
    assert (place / "hf").is_dir()
    return {"start_s": started, "recover_s": training.watched.gap}


def students(size: int, place: Path) -> dict[str, float]:
    return pooled(size, 1, place)


def replicas(size: int, place: Path) -> dict[str, float]:
    return pooled(8, size, place)


def pooled(students: int, replicas: int, place: Path) -> dict[str, float]:
    """Send batches of 16 rows from threads that each are a student, one batch ahead; return rows a
    second of all, the median wait for an answer, and the fewest answers of a student over the most.
    """
    from road_ray.distributed.teachers import start_teachers
    from tests.distributed.test_teachers import NLI
    from tests.tiny_teacher import make_batch, make_teacher

    teacher = make_teacher(place)
    batch = make_batch(0, size=16, length=32)
    options = {"replicas": replicas, "num_cpus": 0.1, "start_timeout_seconds": 300.0}
    with start_teachers([teacher], NLI, **options) as pool:
        pool.gather(pool.submit(batch))
        answered, waits = [0] * students, []
        stop = time.monotonic() + STUDENT_SECONDS

        def learn(number: int) -> None:
            own = pool.part([0])
            ahead = own.submit(batch)
            while time.monotonic() < stop:
                sent, ahead = ahead, own.submit(batch)
                began = time.monotonic()
                own.gather(sent)
                waits.append(time.monotonic() - began)
                answered[number] += 1
            own.gather(ahead)

        threads = [threading.Thread(target=learn, args=(number,)) for number in range(students)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = {"rows_per_second": 16 * sum(answered) / STUDENT_SECONDS}
    found["wait_ms_median"] = 1e3 * float(np.median(waits))
    return found | {"fairness": min(answered) / max(answered)}


CURVES = {
    "store": store,
    "report": report,
    "runs": runs,
    "sweep": sweep,
    "trials": trials,
    "workers": workers,
    "students": students,
    "replicas": replicas,
}


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
    with cluster() if curve in ON_RAY else nullcontext():
        for size in SIZES[curve]:
            if most is None or size <= most:
                with tempfile.TemporaryDirectory(dir="/tmp") as place:
                    action = partial(CURVES[curve], size, Path(place) / "x")
                    found = action() if curve in ON_RAY else in_child(action)
                yield {"curve": curve, "size": size} | {k: round(v, 4) for k, v in found.items()}


def cluster() -> AbstractContextManager[Any]:
    """Return a local cluster that believes to have a core for each of the workers."""
    from tests.cluster import own_cluster

    return own_cluster(32, log_to_driver=False)


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


def figure(files: list[str], output: Path) -> None:
    """Draw the times of the given files, or what a pool answers, beside a straight line of
    exponent 1.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawn = [Path(file) for file in files]
    _, axes = plt.subplots(1, len(drawn), figsize=(4 * len(drawn), 3.2), squeeze=False)
    for axis, path in zip(axes[0], drawn, strict=True):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines = [line for line in lines if "size" in line]
        sizes = [line["size"] for line in lines]
        seconds = [name for name in lines[0] if name.endswith("_s")]
        names = seconds or ["rows_per_second", "wait_ms_median"]
        for name in names:
            axis.loglog(sizes, [line[name] for line in lines], "o-", label=name.removesuffix("_s"))
        start = max(1e-4, *(lines[0][name] for name in names))
        axis.loglog(sizes, [start * n / sizes[0] for n in sizes], ":", color="grey", label="linear")
        axis.set(title=lines[0]["curve"], xlabel="size", ylabel="seconds" if seconds else "")
        axis.set_xticks(sizes, [f"{n:g}" for n in sizes])
        axis.minorticks_off()
        axis.legend(fontsize=7)
    plt.tight_layout()
    plt.savefig(output, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("curve", choices=[*CURVES, "figure"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--most", type=int)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("growth.png"))
    given = parser.parse_args()
    if given.curve == "figure":
        figure(given.files, given.output)
        return
    lines = []
    for line in measured(given.curve, given.most):
        lines.append(line)
        print(json.dumps(line), flush=True)
    print(json.dumps({"curve": given.curve, "exponents": exponents(lines)}))


if __name__ == "__main__":
    main()
