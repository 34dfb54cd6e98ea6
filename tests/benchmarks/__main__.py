"""``python -m tests.benchmarks [NAME ...]`` runs benchmarks, prints a table, writes bench.json."""

import argparse
import json
import os
import time
from pathlib import Path

for _name, _value in {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}.items():
    os.environ.setdefault(_name, _value)  # before torch reads it


def main() -> None:
    from road_ray.reporting.text_tables import aligned
    from tests.benchmarks.plan import Plan
    from tests.benchmarks.shapes import device
    from tests.benchmarks.suite import SUITE

    alone = ("gpu: training on a device", "host: what a step costs the CPU that launches it")
    listed = f"{', '.join(SUITE)}; alone: {', '.join(alone)}"
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=listed)
    parser.add_argument("--repeats", type=int, help="rounds that count, of every benchmark")
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: time of the training thread alone, for a machine that others use too",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=10.0,
        help="for all; races have fewer rounds then, and what does not begin in time is left out; "
        "0: no limit",
    )
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    chosen = parser.parse_args()
    if chosen.names == ["host"]:
        from tests.benchmarks import host

        host.main()
        return
    if chosen.names == ["gpu"]:
        if device().type != "cuda":
            parser.error("gpu: torch sees no CUDA device here")
        chosen.names = ["matrix_rate", "pretrain", "finetune", "distil"]
    if unknown := sorted(set(chosen.names) - set(SUITE)):
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(SUITE)}")
    kinds = ("repeats", "quick_repeats", "few_repeats") if chosen.repeats else ()
    sized = Plan.of_device if device().type == "cuda" else Plan
    plan, rows = sized(clock=chosen.clock, **dict.fromkeys(kinds, chosen.repeats)), []
    if "bf16" not in plan.precisions:
        print("bf16: left out, because this machine has no instructions for it and emulates it")
    names, end = list(chosen.names or SUITE), time.monotonic() + 60 * chosen.minutes
    for number, name in enumerate(names):
        began = time.monotonic()
        if chosen.minutes and began > end:
            print(f"left out: {', '.join(names[number:])}; {chosen.minutes:g} minutes are over")
            print("  fix: name them, or --minutes 0")
            break
        if chosen.minutes:
            plan = plan.within((end - began) / (len(names) - number))
        print(f"{name}: {SUITE[name].__doc__.splitlines()[0]}", flush=True)
        rows += SUITE[name](plan)
        # After each, so that an interrupted run keeps what it has.
        chosen.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(f"  done in {time.monotonic() - began:.0f} s", flush=True)
    print(aligned(rows))
    print(f"written to {chosen.out}")


if __name__ == "__main__":
    main()
