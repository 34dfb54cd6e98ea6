"""Tiny batches for the tests of this room."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch

from road_ray.data.catalog import task
from tests.tiny_teacher import WORDS

NLI, MRC = task("nli"), task("mrc")
FLOAT16 = {"rtol": 2**-11, "atol": 1e-6}  # what rounding to float16 may change


def batches(count: int, *, kind: str = "nli", size: int = 4, length: int = 10) -> list[dict]:
    """Random batches; the last row of each is half padding."""
    generator = torch.Generator().manual_seed(count)
    made = []
    for _ in range(count):
        ids = torch.randint(5, len(WORDS), (size, length), generator=generator)
        mask = torch.ones_like(ids)
        mask[-1, length // 2 :] = 0
        first = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": mask.cumsum(1) // 5 % 2,
        }
        gold = torch.randint(3, (size,), generator=generator)
        names = ["labels"] if kind == "nli" else ["start_positions", "end_positions"]
        made.append(first | {name: gold.clone() for name in names})
    return made


def gone(pid: int) -> bool:
    """True when the process has ended (a zombie that waits for its parent has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether the condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
