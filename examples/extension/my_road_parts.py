"""A weighting rule, a metric, a reader, a head and a tracker, each named in a configuration as
``my_road_parts:name``. ``tests/`` has the contract test of each.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from road_ray.distillation.weighting import mean
from road_ray.training.monitoring.trackers import Tracker


def agreement(logits: Tensor, targets: Tensor) -> Tensor:
    """``weighting.rule``: weight a teacher by the number of teachers that predict the same.

    ``[M, B, ..., C], [B, ...] -> [M, B, ...]``, which sums to M over the teachers.
    """
    if targets.is_floating_point():  # numbers have no votes
        return mean(logits, targets)
    predicted = logits.argmax(-1)
    votes = (predicted.unsqueeze(0) == predicted.unsqueeze(1)).sum(1).float()
    return len(logits) * votes / votes.sum(0)


def kappa(gold: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    """``data.sets.NAME.metrics``: Cohen's kappa, agreement beyond chance. 1 is the best."""
    labels = np.unique([gold, predicted])
    by_chance = sum((gold == one).mean() * (predicted == one).mean() for one in labels)
    if by_chance == 1:  # one label everywhere
        return 1.0
    return float(((gold == predicted).mean() - by_chance) / (1 - by_chance))


def fasttext(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """``data.sets.NAME.layout``: fastText's lines, ``__label__good The text of the row``."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            label, _, text = line.strip().removeprefix("__label__").partition(" ")
            yield f"{path}:{number}", {"text": text, "label": label}


class MeanPooling(nn.Module):
    """``data.sets.NAME.head``: the mean of a row's states, one hidden layer, the logits."""

    def __init__(self, hidden_size: int, num_labels: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, num_labels)

    def forward(self, states: Tensor, attention_mask: Tensor) -> Tensor:
        """``[B, L, H], [B, L] -> [B, num_labels]``; padding has no part in the mean."""
        mask = attention_mask[..., None].to(states.dtype)
        mean = (states * mask).sum(1) / mask.sum(1)
        logits: Tensor = self.output(torch.tanh(self.hidden(mean)))
        return logits


def csv_tracker(run_dir: Path, name: str, config: Mapping[str, object]) -> Tracker:
    """``tracking.custom``: the rows of a run in ``curves.csv``, one value a line."""
    file = (run_dir / "curves.csv").open("a", encoding="utf-8", newline="")
    writer = csv.writer(file)

    def log(step: int, metrics: Mapping[str, float]) -> None:
        writer.writerows([name, step, key, value] for key, value in metrics.items())

    return Tracker(log, close=lambda failed: file.close())
