"""Tiny teachers and batches, and a cluster, for the tests of this room."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from road_ray.data.catalog import task

NLI, MRC = task("nli"), task("mrc")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrs"]
FLOAT16 = {"rtol": 2**-11, "atol": 1e-6}  # what rounding to float16 may change


def make_teacher(
    directory: Path, seed: int, *, kind: str = "nli", labels: Sequence[str] | None = None
) -> Path:
    """A random ELECTRA for ``nli`` or ``mrc``, as ``save_pretrained`` leaves it."""
    from transformers import (
        ElectraConfig,
        ElectraForQuestionAnswering,
        ElectraForSequenceClassification,
        ElectraTokenizer,
    )

    names = labels or (NLI.kind.labels if kind == "nli" else ("start", "end"))
    config = ElectraConfig(
        vocab_size=len(WORDS),
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        id2label=dict(enumerate(names)),
        label2id={label: index for index, label in enumerate(names)},
    )
    torch.manual_seed(seed)
    model = (ElectraForSequenceClassification if kind == "nli" else ElectraForQuestionAnswering)(
        config
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(directory)
    vocab = {word: index for index, word in enumerate(WORDS)}
    ElectraTokenizer(vocab=vocab).save_pretrained(directory)
    return directory


def batches(count: int, *, kind: str = "nli", size: int = 4, length: int = 10) -> list[dict]:
    """Random batches; the last row of each is half padding."""
    generator = torch.Generator().manual_seed(count)
    made = []
    for _ in range(count):
        ids = torch.randint(5, len(WORDS), (size, length), generator=generator)
        mask = torch.ones_like(ids)
        mask[-1, length // 2 :] = 0
        one = {"input_ids": ids, "attention_mask": mask, "token_type_ids": mask.cumsum(1) // 5 % 2}
        gold = torch.randint(3, (size,), generator=generator)
        names = ["labels"] if kind == "nli" else ["start_positions", "end_positions"]
        made.append(one | {name: gold.clone() for name in names})
    return made


@contextmanager
def small_cluster() -> Iterator[Any]:
    """Four logical cores."""
    import ray

    for left in (2, 1, 0):  # a machine that others use heavily may take Ray's 30 s and more
        place = tempfile.mkdtemp(prefix="rr", dir="/tmp")  # short: sockets have a length limit
        own = {
            "_temp_dir": place,
            "num_cpus": 4,
            "object_store_memory": 100 * 2**20,
            "include_dashboard": False,
        }
        address = os.environ.get("ROAD_TEST_CLUSTER", "local")  # one of four cores, if at hand
        try:
            ray.init(address=address, **(own if address == "local" else {}))
            break
        except Exception:
            ray.shutdown()
            if not left:
                raise
    yield ray
    ray.shutdown()
    shutil.rmtree(place, ignore_errors=True)


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
