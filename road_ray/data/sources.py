"""Where the data lies: a directory in the published layout, the embedded miniature world, or the
hub.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from road_ray.config import Config
from road_ray.data import catalog, miniature
from road_ray.data.encode import encode
from road_ray.data.features import Example, Features
from road_ray.data.readers import read_hub, read_split
from road_ray.data.specs import Dataset, Span
from road_ray.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

MINIATURE = "miniature"
HUB = "hub"


class SourceConfig(Config):
    """Where examples come from and how long they may be."""

    # A directory in the published layouts, "miniature" (the embedded world) or "hub"; None:
    # $ROAD_DATA, else hub.
    root: str | None = None
    max_length_tokens: int | None = Field(None, ge=8)  # None: 128 for text, 384 for spans
    stride_tokens: int = Field(128, ge=1)  # spans: a window starts every so many context tokens
    max_question_tokens: int = Field(64, ge=1)
    # Train on, and judge by, the first so many examples of a seeded shuffle; None: all.
    max_rows: int | None = Field(None, ge=1)
    max_judged_rows: int | None = Field(None, ge=1)


@dataclass(frozen=True)
class Split:
    """One split of one data set, read and encoded."""

    dataset: Dataset
    examples: Sequence[Example]
    features: Features


def resolve_root(root: str | None) -> Path | None:
    """The directory of the data, or None for the hub. ``ConfigError`` when it is not there."""
    named = root or os.environ.get("ROAD_DATA") or HUB
    if named == HUB:
        return None
    if named == MINIATURE:
        return miniature.cached()
    place = Path(named).expanduser()
    if not place.is_dir():
        where = "data.root" if root else "ROAD_DATA"
        raise ConfigError(
            f"{where} = {named}: no such directory\n"
            "  allowed: a directory in the published layouts, `miniature` or `hub`"
        )
    return place


def load_split(
    name: str,
    split: str,
    source: SourceConfig,
    tokenizer: PreTrainedTokenizerFast,
    *,
    seed: int = 0,
    judged: bool = False,
) -> Split:
    """``train``, ``dev`` or ``test`` of a catalogue entry, encoded for its task.

    ``source.max_rows`` cuts what is trained on, ``max_judged_rows`` the rest, after a shuffle by
    ``seed``. ``judged``: to be predicted, also if it is the train split.
    """
    entry = catalog.dataset(name)
    root = resolve_root(source.root)
    examples = read_hub(entry, split) if root is None else read_split(entry, root, split)
    most = source.max_rows if split == "train" and not judged else source.max_judged_rows
    if most is not None and most < len(examples):
        kept = np.sort(np.random.default_rng((seed, 4)).permutation(len(examples))[:most])
        examples = [examples[index] for index in kept]
    task = catalog.TASKS[entry.task]
    limits: dict[str, int] = {}
    if isinstance(task.kind, Span):
        limits = {
            "stride_tokens": source.stride_tokens,
            "max_question_tokens": source.max_question_tokens,
        }
    features = encode(
        examples,
        entry,
        task,
        tokenizer,
        train=split == "train" and not judged,
        max_length_tokens=source.max_length_tokens,
        **limits,
    )
    return Split(entry, examples, features)
