"""Preview of a pre-training's rows: hidden tokens and the generator's replacements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from road_ray.config import load
from road_ray.data.batching import Batch
from road_ray.errors import ConfigError
from road_ray.objectives.base import Objective
from road_ray.objectives.pretraining.parts.generator_and_encoder import CorruptingObjective
from road_ray.objectives.pretraining.parts.masked_input import MaskingObjective
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.pretrain import prepare
from road_ray.recipes.run_directory.recorded_config import RECORD
from road_ray.training.checkpoint.atomic_commit import Checkpoints
from road_ray.training.checkpoint.state import load_weights
from road_ray.training.worker import Worker


def peek(place: str, rows: int) -> str:
    """Return the first ``rows`` of the next batch of a run, corrupted by the networks of its newest
    checkpoint, or by new ones.

    ``[MASK: word]`` is to be predicted; ``[word -> other]`` was replaced by the generator;
    ``[word]`` was chosen, and the generator predicted the original.
    """
    config = load(PretrainConfig, path=Path(place) / RECORD)
    made = prepare(config, Worker())
    newest = Checkpoints(Path(place) / "checkpoints").newest()
    step = 0
    if newest is not None:
        load_weights(made.objective, newest)
        step = int(newest.name.removeprefix("step-"))
    batch = made.objective.prepare(next(made.steps.since(step))[0])
    title = f"{config.objective.name}, the batch after step {step}"
    marked = _marked(made.objective, batch, made.tokenizer)
    lines = [f"{title}: {len(marked[:rows])} of {len(marked)} rows"]
    for tokens in marked[:rows]:
        lines += ["", " ".join(tokens)]
    return "\n".join(lines)


@torch.no_grad()
def _marked(objective: Objective, batch: Batch, tokenizer: Any) -> list[list[str]]:
    """Return the tokens of each row, without padding, with marks on hidden ones."""
    objective.eval()
    tokens: Tensor = batch["input_ids"]
    if isinstance(objective, CorruptingObjective):
        made, mark = objective.corrupted(batch), _replaced
        chosen, seen = made.chosen, made.tokens
    elif isinstance(objective, MaskingObjective):
        (chosen, seen), mark = objective.hide(batch), _masked
    else:
        raise ConfigError(f"{type(objective).__name__} hides nothing: there is nothing to show")
    shown = []
    for row, length in enumerate(batch["attention_mask"].sum(1).tolist()):
        words = tokenizer.convert_ids_to_tokens(tokens[row, :length].tolist())
        corrupted = tokenizer.convert_ids_to_tokens(seen[row, :length].tolist())
        at = zip(words, corrupted, chosen[row, :length].tolist(), strict=True)
        shown.append([mark(word, other) if hidden else word for word, other, hidden in at])
    return shown


def _replaced(word: str, other: str) -> str:
    return f"[{word}]" if word == other else f"[{word} -> {other}]"


def _masked(word: str, other: str) -> str:
    return f"[{word}]" if word == other else f"[MASK: {word}]"
