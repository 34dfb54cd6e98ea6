"""Batches with the soft targets of an ensemble; for custom training loops around a model of
``transformers`` also its inputs from such a batch, and the loss of its outputs.
"""

import copy
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from road_ray.data.examples import UNKNOWN
from road_ray.distillation.ensemble import BatchT, Ensemble, submitted
from road_ray.distillation.losses import soft_loss_sum, targets_of, two_classes
from road_ray.distillation.weighting import Merge, Rule, right_teachers, soften
from road_ray.errors import ConfigError, DataError


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
    ``teacher_logits`` ``[M, B, ..., C]`` and ``teacher_weights`` ``[M, B, ...]``. Several labels
    have ``[B, C, 2]`` and ``[B, C]``: the rule weighs the teachers of each label by itself.
    """
    if each and isinstance(weigh, Merge):
        raise ConfigError(
            "distillation.average_loss: weighting.rule gives no weights to average losses with\n"
            "  fix: take a rule of weights, such as mean, correctness or confidence"
        )
    for batch, handle in submitted(batches, ensemble, lookahead):
        begin = time.perf_counter()
        logits = ensemble.gather(handle)
        stats = {"time/teacher_wait_seconds": time.perf_counter() - begin, **ensemble.stats}
        targets, allowed = targets_of(batch)
        targets = targets.to(logits.device)
        if ensemble.is_number:
            targets = targets.flatten()
        elif targets.shape == logits.shape[1:]:  # several labels, each with two classes
            logits, targets = two_classes(logits), targets.long()
        masked = logits
        if allowed is not None:
            masked = logits.float().masked_fill(~allowed.to(logits.device), -torch.inf)
        soft = soften(weigh, logits, targets, masked)
        if not targets.is_floating_point():
            right = right_teachers(masked, targets).sum(0)[targets != UNKNOWN]
            counts = right.bincount(minlength=ensemble.size + 1).tolist()
            stats |= {f"teachers/right_{n}": float(count) for n, count in enumerate(counts)}
        # A copy of the same type: a collator's batch has methods such as ``to``.
        softened: Any = copy.copy(batch) if isinstance(batch, MutableMapping) else dict(batch)
        softened.update(soft_logits=soft.logits, kd_keep=soft.keep)
        for name in ("teacher_logits", "teacher_weights"):  # of an earlier ensemble
            softened.pop(name, None)
        if each:
            softened["teacher_logits"] = logits.nan_to_num(0.0)  # of weight 0
            softened["teacher_weights"] = soft.weights
        softened["stats"] = {**batch.get("stats", {}), **stats}
        yield cast("BatchT", softened)


# Keys for teachers and keys that `annotate` adds to a batch; no model accepts them.
_ADDED = {"texts", "offsets", "words", "stats"}
_ADDED |= {"soft_logits", "kd_keep", "teacher_logits", "teacher_weights"}


def model_inputs(batch: Mapping[str, object]) -> dict[str, Any]:
    """Return the batch without the keys of ``annotate``, for ``model(**model_inputs(batch))``.

    Unknown positions of answers become the one behind the row, which models of ``transformers``
    ignore; -100 they take for position 0, "no answer".

    >>> import torch
    >>> import road_ray as rr
    >>> sorted(rr.model_inputs({"input_ids": torch.ones(1, 3), "soft_logits": torch.ones(1, 2)}))
    ['input_ids']
    """
    inputs: dict[str, Any] = {name: x for name, x in batch.items() if name not in _ADDED}
    for name in ("start_positions", "end_positions"):
        if inputs.get(name) is not None:
            positions, length = torch.as_tensor(inputs[name]), inputs["input_ids"].shape[-1]
            inputs[name] = positions.masked_fill(positions == UNKNOWN, length)
    return inputs


def student_loss(
    outputs: Any, batch: Mapping[str, Any], *, temperature: float = 2.0, kd_weight: float = 0.5
) -> Tensor:
    """Return ``(1 - kd_weight) * outputs.loss + kd_weight * T^2 * KL(teachers || student)``, mean
    over examples (over words in tagging); of a regression the squared error. ``-> []``.

    ``outputs`` are those of any ``AutoModelFor...`` called with labels; ``batch`` is annotated. One
    that was annotated with ``average_loss`` has the mean of the losses to each teacher.

    >>> import torch
    >>> from transformers import AutoModelForSequenceClassification
    >>> import road_ray as rr
    >>> student = AutoModelForSequenceClassification.from_pretrained("runs/finetune/hf")
    >>> batch = {"input_ids": torch.tensor([[2, 7, 3]]), "labels": torch.tensor([1])}
    >>> with rr.Ensemble(["runs/student"], host="process") as ensemble:
    ...     (batch,) = ensemble.annotate([batch])
    >>> loss = rr.student_loss(student(**rr.model_inputs(batch)), batch, kd_weight=0.5)
    >>> loss.backward()
    """
    if not 0 <= kd_weight <= 1:
        raise ConfigError(f"distillation.kd_weight = {kd_weight}\n  allowed: 0 <= value <= 1")
    if outputs.loss is None:
        raise DataError(
            f"the student's outputs have no loss; the batch has {sorted(batch)}\n"
            "  fix: give the model labels, or start_positions and end_positions"
        )
    label_loss: Tensor = outputs.loss
    targets = targets_of(batch)[0].to(label_loss.device)
    known, is_number = targets != UNKNOWN, targets.is_floating_point()
    if not known.any():  # a mean over no labels is NaN
        label_loss = torch.zeros_like(label_loss)
    elif is_number and not known.all():  # to the losses of numbers -100 is a number
        logits = outputs.logits.reshape(targets.shape)[known]
        several = batch["soft_logits"].ndim > outputs.logits.ndim
        of = functional.binary_cross_entropy_with_logits if several else functional.mse_loss
        label_loss = of(logits, targets[known].to(logits))
    spans = getattr(outputs, "start_logits", None) is not None
    heads = (outputs.start_logits, outputs.end_logits) if spans else ()
    logits = torch.stack(heads, 1) if spans else outputs.logits
    total, count = soft_loss_sum(logits, batch, temperature=temperature)
    return (1 - kd_weight) * label_loss + kd_weight * (total / count.clamp(min=1))
