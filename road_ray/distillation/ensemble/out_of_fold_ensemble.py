"""Ensemble that sends each training example only to teachers that were not trained on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from road_ray.data.features.examples_and_features import Ints
from road_ray.distillation.ensemble.protocol import Ensemble
from road_ray.distillation.ensemble.teacher import inputs_of, some_rows
from road_ray.errors import ConfigError, DataError


class FoldMember(NamedTuple):
    """Rows of a batch that one fold's teachers answer."""

    fold: int
    rows: Tensor  # their positions in the batch
    handle: Any


class OutOfFoldEnsemble(Ensemble):
    """Ensemble of cross-validation teachers: ``members[k]`` are those trained without fold ``k``,
    ``folds`` ``[rows]`` is the fold of each training row. M teachers answer each row.

    On their own training rows teachers are nearly always right, so correctness carries no
    information there; out of fold their accuracy is that on new data.
    """

    def __init__(self, members: Sequence[Ensemble], folds: Ints) -> None:
        sizes = sorted({member.size for member in members})
        if len(sizes) != 1:
            raise ConfigError(
                f"distillation.teachers: {sizes} teachers in a fold\n"
                "  allowed: equally many in each, at least one"
            )
        if int(folds.max(initial=0)) >= len(members):
            raise ConfigError(
                f"distillation.teachers: teachers of {len(members)} folds, but a row is in fold "
                f"{int(folds.max())}\n  fix: name the teachers.json that `road teachers` wrote"
            )
        self.members, self.folds = tuple(members), torch.from_numpy(folds).long()

    @property
    def size(self) -> int:
        return self.members[0].size

    def submit(self, batch: Mapping[str, Any]) -> list[FoldMember]:
        """Send the rows of each fold to its teachers."""
        if "rows" not in batch:
            raise DataError(
                "the batch has no rows, so the teachers that were trained on them are unknown\n"
                "  fix: teachers of folds only work with batches of road_ray"
            )
        numbers = torch.as_tensor(batch["rows"]).cpu()
        folds, inputs, parts = self.folds[numbers], inputs_of(batch), []
        for fold in sorted(set(folds.tolist())):
            rows = (folds == fold).nonzero().squeeze(1)
            part = some_rows(inputs, rows.numpy())
            parts.append(FoldMember(fold, rows, self.members[fold].submit(part)))
        return parts

    def gather(self, handle: list[FoldMember]) -> Tensor:
        """Return the logits in the order of the batch. ``-> [M, B, ..., C]``, fp32."""
        answers = [self.members[part.fold].gather(part.handle) for part in handle]
        rows = torch.cat([part.rows for part in handle]).to(answers[0].device)
        return torch.cat(answers, 1)[:, rows.argsort()]

    def close(self) -> None:
        for member in self.members:
            member.close()
