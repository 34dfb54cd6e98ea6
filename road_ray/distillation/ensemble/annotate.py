"""Batches annotated with teacher logits: the soft targets of a stream of batches."""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from road_ray.data.batching import allowed_positions
from road_ray.data.features.examples_and_features import UNKNOWN
from road_ray.distillation.ensemble.protocol import Ensemble
from road_ray.distillation.weighting import Merge, Rule, mask_disallowed, num_right, soften
from road_ray.errors import ConfigError, DataError

BatchT = TypeVar("BatchT", bound=Mapping[str, Any])


def annotate(
    batches: Iterable[BatchT],
    ensemble: Ensemble,
    weigh: Rule,
    lookahead: int = 2,
    *,
    each: bool = False,
) -> Iterator[BatchT]:
    """Yield a copy of each batch with the teachers' answers, in order; requests run ``lookahead``
    batches ahead of the consumer.

    Adds ``soft_logits`` ``[B, ..., C]``, ``kd_keep`` ``[B, ...]`` (some teacher counts) and
    ``stats``: sums of ``time/teacher_wait_seconds`` and ``teachers/right_0`` to ``right_M``
    (labelled examples, or heads of spans, by the number of teachers that are right). ``each`` adds
    ``teacher_logits`` ``[M, B, ..., C]`` and ``teacher_weights`` ``[M, B, ...]``.
    """
    if each and isinstance(weigh, Merge):
        raise ConfigError(
            "distillation.average_loss: weighting.rule gives no weights to average losses with\n"
            "  fix: take a rule of weights, such as mean, correctness or confidence"
        )
    if lookahead < 0:
        raise ConfigError(f"distillation.lookahead is {lookahead}\n  allowed: 0 or more batches")
    return _annotated(batches, ensemble, weigh, lookahead, each)


def _annotated(
    batches: Iterable[BatchT],
    ensemble: Ensemble,
    weigh: Rule,
    lookahead: int,
    each: bool,
) -> Iterator[BatchT]:
    waiting: deque[tuple[BatchT, Any]] = deque()
    for batch in batches:
        waiting.append((batch, ensemble.submit(batch)))
        if len(waiting) > lookahead:
            yield _softened(*waiting.popleft(), ensemble, weigh, each)
    while waiting:
        yield _softened(*waiting.popleft(), ensemble, weigh, each)


def _softened(batch: BatchT, handle: object, ensemble: Ensemble, weigh: Rule, each: bool) -> BatchT:
    begin = time.perf_counter()
    logits = ensemble.gather(handle)
    stats = {"time/teacher_wait_seconds": time.perf_counter() - begin, **ensemble.stats}
    targets, allowed = targets_of(batch).to(logits.device), allowed_of(batch)
    soft = soften(weigh, logits, targets, allowed)
    if not targets.is_floating_point():
        known = targets != UNKNOWN
        right = num_right(mask_disallowed(logits, allowed), targets)
        counts = right[known].bincount(minlength=ensemble.size + 1)
        stats |= {f"teachers/right_{n}": float(count) for n, count in enumerate(counts.tolist())}
    # A copy of the same type: a collator's batch has methods such as ``to``.
    softened: Any = copy.copy(batch) if isinstance(batch, MutableMapping) else dict(batch)
    softened["soft_logits"] = soft.logits
    softened["kd_keep"] = soft.keep
    if each:
        softened["teacher_logits"], softened["teacher_weights"] = logits, soft.weights
    softened["stats"] = {**batch.get("stats", {}), **stats}
    return cast("BatchT", softened)


def targets_of(batch: Mapping[str, Any]) -> Tensor:
    """Return the labels of a batch, ``[B]``, or its start and end positions, ``[B, 2]``; -100 is
    unknown.
    """
    if batch.get("start_positions") is not None and batch.get("end_positions") is not None:
        ends = [torch.as_tensor(batch[name]) for name in ("start_positions", "end_positions")]
        return torch.stack(ends, -1)
    if batch.get("labels") is None:
        raise DataError(
            f"the batch has no labels to weight the teachers by; it has {sorted(batch)}\n"
            f"  allowed: labels, or start_positions and end_positions; {UNKNOWN} where unknown"
        )
    return torch.as_tensor(batch["labels"])


def allowed_of(batch: Mapping[str, object]) -> Tensor | None:
    """Return the classes that count for correctness: ``[B, 1, L]`` for spans, without question and
    padding; None for all.
    """
    return allowed_positions(batch)[:, None, :] if "start_positions" in batch else None
