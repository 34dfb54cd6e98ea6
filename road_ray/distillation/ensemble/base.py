"""Teachers that answer with logits, and the stream of batches that their answers are attached to.

The protocol has two sides: here is the ensemble in this process; ``distributed/teachers/client.py``
has the same in actors. The student's loop, loss and head never learn which one it was.
"""

from __future__ import annotations

import copy
import inspect
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from road_ray.data.batching import allowed_positions
from road_ray.data.features.types import UNKNOWN
from road_ray.data.model_files import locate_model
from road_ray.data.schema import Span, Tag, Task
from road_ray.distillation.teacher_identity import HEADS, check_teacher, refuse_random
from road_ray.distillation.weighting import Merge, Rule, num_right, soften
from road_ray.distillation.weighting.combine import mask_disallowed
from road_ray.errors import CheckpointError, ConfigError, DataError
from road_ray.models.config import Precision
from road_ray.models.precision import autocast_dtype
from road_ray.models.weights import load_stored

# A padding position is no answer. Finite, exact in fp16, and nothing after a softmax.
PAD_LOGIT = -10000.0
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Ensemble(Protocol):
    """M teachers behind two calls; the order of the teachers is kept, and all of them answer or
    none.
    """

    @property
    def size(self) -> int: ...

    def submit(self, batch: Mapping[str, Any]) -> Any:
        """Ask all teachers; gives a handle at once."""
        ...

    def gather(self, handle: Any) -> Tensor:
        """The answers to a handle. ``-> [M, B, ..., C]``, fp32."""
        ...


class Teacher:
    """One frozen model of plain ``transformers``, its classes in the order of the task's labels."""

    def __init__(
        self,
        directory: str | Path,
        task: Task,
        *,
        label_map: Mapping[str, str] | None = None,
        device: str | torch.device = "cpu",
        precision: Precision = "auto",
    ) -> None:
        self.directory = locate_model(directory)
        self.task = task
        order = check_teacher(self.directory, task, label_map=label_map)
        self._model = _load(self.directory, task).to(device).eval().requires_grad_(False)
        self._order = None if order is None else torch.tensor(order, device=device)
        width = int(self._model.config.hidden_size)
        self._autocast = autocast_dtype(precision, self._model.device, width)
        if self._autocast is not None:
            _cast_once(self._model, self._autocast)
        accepted = inspect.signature(self._model.forward).parameters
        self._segments = "token_type_ids" in accepted and self._model.config.type_vocab_size > 1

    def logits(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Raw logits in fp32. ``[B, L] -> [B, C]``, or ``[B, 2, L]`` (start, end) for spans and
        ``[B, L, C]`` for tags, with ``PAD_LOGIT`` at padding: no rule and no loss may depend on
        what stands there.
        """
        device = self._model.device
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self._segments:
            inputs["token_type_ids"] = token_type_ids
        halved = torch.autocast(device.type, self._autocast, enabled=self._autocast is not None)
        with torch.inference_mode(), halved:
            given = {name: x.to(device).long() for name, x in inputs.items() if x is not None}
            output = self._model(**given)
        # Cloned outside: a tensor of inference mode cannot be saved for a backward pass.
        if isinstance(self.task.kind, Span):
            logits = torch.stack([output.start_logits, output.end_logits], 1).float()
        else:
            logits = output.logits.float().clone()
        if self._order is not None:
            logits = logits[..., self._order]
        if isinstance(self.task.kind, Span | Tag) and attention_mask is not None:
            padding = attention_mask.to(logits.device) == 0
            axis = 1 if isinstance(self.task.kind, Span) else 2
            logits = logits.masked_fill(padding.unsqueeze(axis), PAD_LOGIT)
        if not bool(logits.isfinite().all()):
            raise CheckpointError(
                f"{self.directory}: the teacher's logits are not finite\n  fix: fine-tune it again"
            )
        return logits


class LocalEnsemble:
    """Teachers in this process, asked one after the other when their answer is wanted."""

    def __init__(self, teachers: Sequence[Teacher]) -> None:
        if not teachers:
            raise ConfigError("distillation.teachers is empty\n  allowed: at least one directory")
        self.teachers = tuple(teachers)

    @classmethod
    def load(
        cls,
        directories: Sequence[str | Path],
        task: Task,
        *,
        label_map: Mapping[str, str] | None = None,
        device: str | torch.device = "cpu",
        precision: Precision = "auto",
    ) -> LocalEnsemble:
        """One teacher a directory."""
        return cls(
            [
                Teacher(place, task, label_map=label_map, device=device, precision=precision)
                for place in directories
            ]
        )

    @property
    def size(self) -> int:
        return len(self.teachers)

    def submit(self, batch: Mapping[str, Any]) -> dict[str, Tensor]:
        """The inputs of the batch; the work is done on ``gather``."""
        return inputs_of(batch)

    def gather(self, handle: dict[str, Tensor]) -> Tensor:
        """The teachers' logits. ``-> [M, B, ..., C]``, fp32."""
        return stacked([teacher.logits(**handle) for teacher in self.teachers])


def annotate(
    batches: Iterable[Mapping[str, Any]],
    ensemble: Ensemble,
    weigh: Rule,
    lookahead: int = 2,
    *,
    each: bool = False,
) -> Iterator[Mapping[str, Any]]:
    """Each batch, copied, with what the teachers say; order kept, ``lookahead`` requests ahead of
    the consumer.

    Adds ``soft_logits`` ``[B, ..., C]``, ``kd_keep`` ``[B, ...]`` (some teacher counts) and
    ``stats``: sums of ``time/teacher_wait_seconds`` and ``teachers/right_0`` to ``right_M``
    (examples, or heads of spans, by how many teachers were right; unknown gold is not counted).
    ``each`` adds ``teacher_logits`` ``[M, B, ..., C]`` and ``teacher_weights`` ``[M, B, ...]``.
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
    batches: Iterable[Mapping[str, Any]],
    ensemble: Ensemble,
    weigh: Rule,
    lookahead: int,
    each: bool,
) -> Iterator[Mapping[str, Any]]:
    waiting: deque[tuple[Mapping[str, Any], Any]] = deque()
    for batch in batches:
        waiting.append((batch, ensemble.submit(batch)))
        if len(waiting) > lookahead:
            yield _softened(*waiting.popleft(), ensemble, weigh, each)
    while waiting:
        yield _softened(*waiting.popleft(), ensemble, weigh, each)


def _softened(
    batch: Mapping[str, Any], handle: Any, ensemble: Ensemble, weigh: Rule, each: bool
) -> Mapping[str, Any]:
    begin = time.perf_counter()
    logits = ensemble.gather(handle)
    stats = {"time/teacher_wait_seconds": time.perf_counter() - begin}
    stats |= getattr(ensemble, "gauges", {})  # what an ensemble can tell of its last answer
    targets, allowed = targets_of(batch).to(logits.device), allowed_of(batch)
    soft = soften(weigh, logits, targets, allowed)
    if not targets.is_floating_point():
        known = targets != UNKNOWN
        right = num_right(mask_disallowed(logits, allowed), targets)
        counts = right[known].bincount(minlength=ensemble.size + 1)
        stats |= {f"teachers/right_{n}": float(count) for n, count in enumerate(counts.tolist())}
    # A copy of its own type: a collator's batch keeps methods such as ``to``.
    softened = copy.copy(batch) if isinstance(batch, MutableMapping) else dict(batch)
    softened["soft_logits"] = soft.logits
    softened["kd_keep"] = soft.keep
    if each:
        softened["teacher_logits"], softened["teacher_weights"] = logits, soft.weights
    softened["stats"] = {**batch.get("stats", {}), **stats}
    return softened


def inputs_of(batch: Mapping[str, Any]) -> dict[str, Tensor]:
    """What a teacher reads of a batch, ``[B, L]`` each."""
    if "input_ids" not in batch:
        raise DataError(f"the batch has no input_ids; it has {sorted(batch)}")
    given = (name for name in INPUTS if batch.get(name) is not None)
    return {name: torch.as_tensor(batch[name]) for name in given}


def targets_of(batch: Mapping[str, Any]) -> Tensor:
    """The gold of a batch: ``labels`` ``[B]``, or start and end positions ``[B, 2]``; -100 is
    unknown.
    """
    if batch.get("start_positions") is not None and batch.get("end_positions") is not None:
        ends = [torch.as_tensor(batch[name]) for name in ("start_positions", "end_positions")]
        return torch.stack(ends, -1)
    if batch.get("labels") is None:
        raise DataError(
            f"the batch has no gold to weigh the teachers with; it has {sorted(batch)}\n"
            f"  allowed: labels, or start_positions and end_positions; {UNKNOWN} where unknown"
        )
    return torch.as_tensor(batch["labels"])


def allowed_of(batch: Mapping[str, Any]) -> Tensor | None:
    """The classes that a teacher may be judged by, None for all: of spans ``[B, 1, L]``, without
    question and padding.
    """
    return allowed_positions(batch)[:, None, :] if "start_positions" in batch else None


def stacked(answers: Sequence[Tensor]) -> Tensor:
    """``M x [B, ..., C] -> [M, B, ..., C]``. Raises ``DataError`` when one teacher answers in
    another shape.
    """
    for index, answer in enumerate(answers):
        if answer.shape != answers[0].shape:
            raise DataError(
                f"teacher {index} answers in shape {list(answer.shape)}, "
                f"teacher 0 in {list(answers[0].shape)}"
            )
    return torch.stack(list(answers))


def _cast_once(model: torch.nn.Module, dtype: torch.dtype) -> None:
    """What autocast would make of frozen weights for every batch anew; the answers are the same."""
    for part in model.modules():
        if isinstance(part, torch.nn.Linear):
            part.to(dtype)


def _load(directory: Path, task: Task) -> Any:
    """The model with every weight from the file. Raises ``CheckpointError`` when a part would be
    random.
    """
    import transformers

    auto = getattr(transformers, f"AutoModel{HEADS[type(task.kind)]}")
    model, missing = load_stored(auto, directory)
    refuse_random(directory, missing)
    return model
