"""Print the tables of docs/results/scaling.md.

``python docs/results/scaling.py DATA RUNS`` measures one and two workers (eight minutes on an idle
machine). Without arguments it estimates communication and teacher traffic of many; every assumption
is a constant below.
"""

import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

from road_ray.models.config import EncoderConfig
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.training.profile import encoder_flops
from road_ray.verbs import preset_config

GPU_FLOPS = 990e12 * 0.35  # bf16 peak of an H100, and the fraction of it that small models reach
GRADIENT_BYTES = 4  # fp32
GIGABYTES_PER_SECOND = 40.0  # a GPU's share of eight 400 Gbit/s links at 80 %
HOP_SECONDS = 20e-6  # latency of each of the 2 (n - 1) hops
GPUS = (8, 64, 512)
VOCABULARY = 30522
PRESETS = ("electra_small", "electra_base", "electra_large")
TEACHERS, BATCH, LENGTH = 3, 32, 512

ROAD = shlex.split(os.environ.get("ROAD", f"{sys.executable} -m road_ray"))
WORKERS, REPEATS = (0, 1, 2), 2
PARTS = ("step", "data")
SETTINGS = {
    "data.max_length_tokens": 128,
    "data.batch_size": 32,
    "encoder.layers": 4,
    "encoder.hidden_size": 256,
    "encoder.heads": 4,
    "encoder.intermediate_size": 1024,
    "generator.scale": 0.25,
    "training.steps": 40,
    "training.log_every_steps": 10,
    "console": "plain",
}


def measured(data: str, place: Path) -> list[str]:
    """Return a row per number of workers: the same global batch, medians over interleaved runs."""
    seconds: dict[int, list[dict[str, float]]] = {workers: [] for workers in WORKERS}
    given = SETTINGS | {"data.root": data, "data.shards": place / "shards"}
    for turn in range(REPEATS):
        for workers in WORKERS:
            run = place / f"workers-{workers}-{turn}"
            overrides = [f"{key}={value}" for key, value in given.items()]
            where = ["--preset", "tiny_electra", "--workers", str(workers), "--run-dir", str(run)]
            subprocess.run([*ROAD, "pretrain", *where, *overrides], check=True, capture_output=True)
            row = read_rows(run / "metrics.jsonl")[2]  # of steps 21 to 30, after warm-up
            seconds[workers].append({part: row.get(f"time/{part}_seconds", 0.0) for part in PARTS})
    found = {
        workers: {part: statistics.median(row[part] for row in rows) for part in PARTS}
        for workers, rows in seconds.items()
    }
    return [
        f"| {workers or 'none: this process'} | {1 / split['step']:.2f} | "
        f"{found[1]['step'] / split['step']:.2f} | {split['data'] / split['step']:.1%} |"
        for workers, split in found.items()
    ]


def parameters(size: EncoderConfig) -> float:
    """Return the number of parameters of layers and embeddings."""
    layer = 4 * size.hidden_size**2 + 2 * size.hidden_size * size.intermediate_size
    return size.layers * layer + VOCABULARY * size.embedding_size


def communication_seconds(gradient_bytes: float, gpus: int) -> float:
    """Return the seconds of a ring all-reduce. Source: Patarasuk and Yuan 2009."""
    share = 2 * (gpus - 1) / gpus
    return share * gradient_bytes / (GIGABYTES_PER_SECOND * 1e9) + 2 * (gpus - 1) * HOP_SECONDS


def rows() -> list[str]:
    """Return a row of the communication table per preset."""
    lines = []
    for name in PRESETS:
        config = preset_config(name)
        size, scale = config.encoder, config.generator.scale
        length, batch = config.data.max_length_tokens, config.data.batch_size
        # The generator costs about the square of its scale; backward is twice the forward.
        forward = encoder_flops(size, 0, length) * (1 + scale**2)  # embeddings are looked up
        alone = 3 * forward * batch / GPU_FLOPS
        gradient = GRADIENT_BYTES * parameters(size) * (1 + scale**2)
        cells = []
        for gpus in GPUS:
            if gpus > batch:
                cells.append("no row each")
                continue
            seconds = communication_seconds(gradient, gpus)
            cells.append(f"{seconds / (seconds + alone / gpus):.0%}")
        lines.append(
            f"| {name} | {batch} x {length} | {gradient / 1e6:.0f} | {' | '.join(cells)} |"
        )
    return lines


def traffic() -> list[str]:
    """Return the bytes per step and student that teachers cost, by kind of task."""
    ids = BATCH * LENGTH * (4 + 1 + 1)  # int32 ids, int8 mask and segments
    logits = {"classify, 3 labels": 3, "span": 2 * LENGTH, "tags, 9 labels": 9 * LENGTH}
    return [
        f"| {name} | {TEACHERS * ids / 1e3:.0f} | {TEACHERS * BATCH * count * 2 / 1e3:.1f} |"
        for name, count in logits.items()
    ]


if __name__ == "__main__":
    given = sys.argv[1:]
    lines = measured(given[0], Path(given[1])) if given else [*rows(), "", *traffic()]
    print("\n".join(lines))
