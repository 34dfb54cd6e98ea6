"""Tables of teachers' answers: rows read a second, hashing included, and their size on disk."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from road_ray.data.catalog import task
from road_ray.distillation.ensemble.protocol import Ensemble
from road_ray.distillation.ensemble.stored_ensemble import StoredEnsemble

_TEACHERS = 3
AIM_ROWS_A_SECOND = 50_000.0


class _Said(Ensemble):
    """Teachers that answer at once: what is timed is the store."""

    size = _TEACHERS

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def submit(self, batch: Any) -> tuple[int, ...]:
        return tuple(batch["input_ids"].shape)

    def gather(self, handle: tuple[int, ...]) -> torch.Tensor:
        size, length = handle
        shape = [length if number < 0 else number for number in self.shape]
        return torch.randn(_TEACHERS, size, *shape)


def measured(
    name: str, *, rows: int, length: int, batch_size: int = 32, clock: str = "wall"
) -> dict[str, float]:
    """Rows a second written and read of random rows of a quarter of ``length`` to all of it, and
    bytes a row and teacher. ``name``: a task of classes, or ``mrc``.
    """
    now = {"wall": time.perf_counter, "cpu": time.process_time}[clock]
    subject = task(name)
    shape = (2, -1) if name == "mrc" else (subject.kind.width,)
    batches = _batches(rows, length, batch_size)

    with tempfile.TemporaryDirectory() as root:
        stored = StoredEnsemble.open(root, _manifest(), subject)
        began = now()
        stored.label(lambda: batches, lambda members: _Said(shape))
        written = now() - began
        began = now()
        for batch in batches:
            stored.gather(stored.submit(batch))
        read = now() - began
        size = sum(path.stat().st_size for path in Path(root).glob("*/table-*/*.npy"))
    return {
        "written": rows / written,
        "read": rows / read,
        "bytes_a_row_and_teacher": size / rows / _TEACHERS,
    }


def _manifest() -> dict[str, Any]:
    parts = {"config_sha256": "", "tokenizer_sha256": "", "labels": [], "order": None}
    parts["precision"] = "fp32"
    each = [{"directory": str(n), "weights_sha256": str(n) * 64, **parts} for n in range(_TEACHERS)]
    return {"teachers": each}


def _batches(rows: int, length: int, batch_size: int) -> list[dict[str, torch.Tensor]]:
    chance = np.random.default_rng(0)
    lengths = chance.integers(length // 4, length + 1, rows)
    made = []
    for first in range(0, rows, batch_size):
        part = lengths[first : first + batch_size]
        real = np.arange(int(part.max())) < part[:, None]
        ids = chance.integers(5, 30_000, real.shape) * real
        made.append(
            {
                "input_ids": torch.from_numpy(ids),
                "attention_mask": torch.from_numpy(real.astype(np.int64)),
                "token_type_ids": torch.from_numpy((real & (np.arange(real.shape[1]) > 9)) * 1),
            }
        )
    return made
