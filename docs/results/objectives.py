"""Train every pre-training objective, and two chains of two, on Wikipedia text.

Checks that losses fall, that a stopped and resumed run ends with the weights of an uninterrupted
one, that two workers train what one process trains, and that plain transformers loads the result.
Usage: python docs/results/objectives.py DATA RUNS [NAME...]   (prints a table; a minute per row)
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file

from road_ray.objectives.pretraining.registry import OBJECTIVES
from road_ray.training.monitoring.metrics_journal import read_rows

ROAD = shlex.split(os.environ.get("ROAD", f"{sys.executable} -m road_ray"))
STEPS = 300
EARLY_STEPS = 5  # later, rounding changes a sample of the generator, and the runs diverge
SHARED = {
    "data.max_length_tokens": 64,
    "data.batch_size": 16,
    "encoder.layers": 2,
    "encoder.hidden_size": 128,
    "encoder.heads": 2,
    "encoder.intermediate_size": 512,
    "encoder.dropout": 0.0,  # dropout masks differ between workers
    "training.steps": STEPS,
    "training.log_every_steps": 10,
    "training.save_every_steps": 50,
    "optimizer.warmup_steps": 10,
    "optimizer.peak_lr": 1e-3,
    "console": "plain",
}
LOADED = """
import sys, transformers
model, report = transformers.AutoModel.from_pretrained(sys.argv[1], output_loading_info=True)
assert not report["missing_keys"] and "road_ray" not in sys.modules, report
"""


LOSSES = ("mlm", "generator", "discriminator", "selection", "choice")


@dataclass(frozen=True)
class Chain:
    """Settings of the last stage, and the run from which it starts."""

    settings: Mapping[str, object]
    first: str = ""
    also: tuple[str, ...] = field(default=())  # further keys that name the first run


CHAINS = {
    **{name: Chain({"objective.name": name}) for name in OBJECTIVES},
    "teams": Chain(
        {"objective.name": "teams", "objective.options.shared_layers": 1}
    ),  # of two layers
    "two stages": Chain(
        {"objective.name": "electra", "generator.kind": "frozen", "generator.scale": 1.0},
        first="mlm",
        also=("init", "generator.init"),
    ),
    "joint after mlm": Chain(
        {"objective.name": "electra", "generator.scale": 1.0},
        first="mlm",
        also=("init", "generator.init"),
    ),
}


def command(run: Path, settings: Mapping[str, object], workers: int = 0) -> list[str]:
    overrides = [f"{key}={value}" for key, value in settings.items()]
    place = ["--preset", "tiny_electra", "--run-dir", str(run), "--workers", str(workers)]
    return [*ROAD, "pretrain", *place, *overrides]


def trained(run: Path, settings: Mapping[str, object], workers: int = 0) -> None:
    done = subprocess.run(command(run, settings, workers), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def stopped_and_resumed(run: Path, settings: Mapping[str, object]) -> None:
    """Run the same training, stop it with SIGTERM and resume it."""
    if not (run / "metrics.json").is_file():
        process = subprocess.Popen(command(run, settings), stdout=-3, stderr=-3)
        while process.poll() is None and len(rows_of(run)) < 5:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 6, f"{run}: expected exit code 6, got {process.returncode}"
    trained(run, settings)


def rows_of(run: Path) -> list[dict[str, float]]:
    path = run / "metrics.jsonl"
    return read_rows(path) if path.is_file() else []


def mean_of(rows: list[dict[str, float]], key: str) -> float:
    return sum(row[key] for row in rows) / len(rows)


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "hf" / "model.safetensors")


def table_row(name: str, data: str, place: Path) -> str:
    """Return one row of the table."""
    chain = CHAINS[name]
    settings = SHARED | {"data.root": data, "data.shards": str(place / "shards")} | chain.settings
    settings |= {key: str(place / chain.first / "straight") for key in chain.also}
    kinds = ("straight", "resumed", "one", "two")
    runs = {kind: place / name.replace(" ", "-") / kind for kind in kinds}
    trained(runs["straight"], settings)
    stopped_and_resumed(runs["resumed"], settings)
    early = settings | {"training.steps": EARLY_STEPS}
    trained(runs["one"], early)
    trained(runs["two"], early, workers=2)
    ours, cut, one, two = (weights(run) for run in runs.values())
    equal = all(torch.equal(ours[key], cut[key]) for key in ours)
    apart = max(float((one[key] - two[key]).abs().max()) for key in one)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    line = [sys.executable, "-c", LOADED, str(runs["straight"] / "hf")]
    loaded = subprocess.run(line, env=environment, cwd="/", capture_output=True).returncode == 0
    rows = rows_of(runs["straight"])
    falls = [
        f"{name} {mean_of(rows[:3], key):.2f} to {mean_of(rows[-3:], key):.2f}"
        for name, key in ((name, f"train/{name}") for name in LOSSES)
        if key in rows[0]
    ]
    words = {True: "yes", False: "**no**"}
    return f"| {name} | {', '.join(falls)} | {words[equal]} | {apart:.1e} | {words[loaded]} |"


def main() -> None:
    """Print the table row by row."""
    data, place, *names = sys.argv[1:]
    apart = f"two workers, {EARLY_STEPS} steps: largest difference of a weight"
    columns = ("objective", f"loss over {STEPS} steps", "stopped and resumed: bit-equal", apart)
    print(f"| {' | '.join(columns)} | loads with plain transformers |")
    print("|---|---|---|---|---|")
    for name in names or CHAINS:
        print(table_row(name, data, Path(place)), flush=True)


if __name__ == "__main__":
    main()
