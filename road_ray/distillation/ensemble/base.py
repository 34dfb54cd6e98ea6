"""The ensemble protocol, a teacher, and batches annotated with teacher logits.

``distributed/teachers/client.py`` implements the same protocol with teachers in Ray actors. The
student's loop, loss and head are the same for both.
"""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.batching import INPUTS, allowed_positions
from road_ray.data.features.types import UNKNOWN
from road_ray.data.model_files import locate_model
from road_ray.data.schema import Span, Tag, Task
from road_ray.distillation.teacher_identity import HEADS, check_teacher, refuse_random
from road_ray.distillation.weighting import Merge, Rule, num_right, soften
from road_ray.distillation.weighting.combine import mask_disallowed
from road_ray.errors import CheckpointError, ConfigError, DataError
from road_ray.models.architectures import input_names
from road_ray.models.config import TeacherPrecision
from road_ray.models.heads.label_order import LabelMap
from road_ray.models.performance.int8 import round_to_int8
from road_ray.models.performance.precision import autocast_dtype
from road_ray.models.weights import load_stored

PAD_LOGIT = -10000.0  # of padding positions: finite, exact in fp16, 0 after a softmax
# In a batch ``[B]``: teachers that read texts answer for their own tokens, not for the student's.
OWN_TOKENS = "own_tokens"


class Ensemble(ABC):
    """Base class of ensembles: M teachers that answer batches with logits, in a fixed order. Either
    all of them answer, or none.

    The default methods suit an ensemble without resources. As a context manager it closes itself.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of teachers, M."""

    @property
    def stats(self) -> Mapping[str, float]:
        """Figures of the last answer, for the journal."""
        return {}

    @abstractmethod
    def submit(self, batch: Mapping[str, object]) -> Any:
        """Send a batch to all teachers and return a handle at once."""

    @abstractmethod
    def gather(self, handle: Any) -> Tensor:
        """Return the logits of a submitted batch. ``-> [M, B, ..., C]``, fp32."""

    def flush(self) -> None:  # noqa: B027  # only a stored ensemble overrides it
        """Write all answers so far to disk, where the ensemble stores them."""

    def close(self) -> None:  # noqa: B027  # only an ensemble with resources does
        """Release what the ensemble owns: actors, files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WrappedEnsemble(Ensemble):
    """Ensemble that passes every call on to another one; subclasses override what differs."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.inner = ensemble

    @property
    def size(self) -> int:
        return self.inner.size

    @property
    def stats(self) -> Mapping[str, float]:
        return self.inner.stats

    def submit(self, batch: Mapping[str, object]) -> Any:
        return self.inner.submit(batch)

    def gather(self, handle: Any) -> Tensor:
        return self.inner.gather(handle)

    def flush(self) -> None:
        self.inner.flush()

    def close(self) -> None:
        self.inner.close()


class Teacher:
    """A frozen ``transformers`` model, its classes in the order of the task's labels."""

    def __init__(
        self,
        directory: str | Path,
        task: Task,
        *,
        label_map: LabelMap | None = None,
        device: str | torch.device = "cpu",
        precision: TeacherPrecision = "auto",
    ) -> None:
        self.directory = locate_model(directory)
        self.task = task
        order = check_teacher(self.directory, task, label_map=label_map)
        self._model = _load(self.directory, task).to(device).eval().requires_grad_(False)
        self._order = None if order is None else torch.tensor(order, device=device)
        self._autocast = self._reduce_precision(precision)
        self._segments = "token_type_ids" in input_names(self._model)

    @property
    def device(self) -> torch.device:
        """Device that computes the logits."""
        device: torch.device = self._model.device
        return device

    @property
    def stats(self) -> Mapping[str, float]:
        """Sums over the rows of the last answer; with the student's tokenizer there are none."""
        return {}

    def _reduce_precision(self, precision: TeacherPrecision) -> torch.dtype | None:
        """Round the weights as ``precision`` says; return the dtype of autocast, if any."""
        if precision == "int8":
            if self.device.type != "cpu":
                raise ConfigError(
                    f"distillation.precision = int8: the teachers are on {self.device.type}\n"
                    "  allowed: int8 on a CPU\n  fix: distillation.precision=bf16"
                )
            round_to_int8(self._model)
            return None
        dtype = autocast_dtype(precision, self.device, int(self._model.config.hidden_size))
        if dtype is not None:
            _cast_once(self._model, dtype)
        return dtype

    def logits(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **texts: Any,
    ) -> Tensor:
        """Return raw logits in fp32. ``[B, L] -> [B, C]``, or ``[B, 2, L]`` (start, end) for spans
        and ``[B, L, C]`` for tags, with ``PAD_LOGIT`` at padding, which no rule and no loss reads.
        ``texts`` are inputs of teachers with another tokenizer and are not read.
        """
        device = self.device
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self._segments:
            inputs["token_type_ids"] = token_type_ids
        autocast = torch.autocast(device.type, self._autocast, enabled=self._autocast is not None)
        with torch.inference_mode(), autocast:
            present = {name: x.to(device).long() for name, x in inputs.items() if x is not None}
            output = self._model(**present)
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


def inputs_of(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a teacher: tensors ``[B, L]`` each, and for teachers with another
    tokenizer the ``texts``, ``[B]`` tuples of strings, with ``offsets`` or ``words``.
    """
    if "input_ids" not in batch:
        raise DataError(f"the batch has no input_ids; it has {sorted(batch)}")
    names = (*INPUTS, "offsets", "words", OWN_TOKENS)
    inputs: dict[str, Any] = {
        name: torch.as_tensor(batch[name]) for name in names if batch.get(name) is not None
    }
    if batch.get("texts") is not None:
        texts = np.empty(len(batch["texts"]), object)
        texts[:] = [(row,) if isinstance(row, str) else tuple(row) for row in batch["texts"]]
        inputs["texts"] = texts
    return inputs


def some_rows(inputs: Mapping[str, Any], numbers: NDArray[np.integer[Any]]) -> dict[str, Any]:
    """Return the inputs of these rows, in this order."""
    chosen = np.asarray(numbers, np.int64)
    index = torch.from_numpy(chosen)
    return {
        name: value[index.to(value.device)] if isinstance(value, Tensor) else value[chosen]
        for name, value in inputs.items()
    }


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


def numbered(figures: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Return figures by teacher as one mapping with names such as ``teachers/outside_0``."""
    return {
        f"teachers/{name}_{number}": value
        for number, teacher_figures in figures.items()
        for name, value in teacher_figures.items()
    }


def stacked(answers: Sequence[Tensor], *, own_tokens: bool = False) -> Tensor:
    """Stack ``M x [B, ..., C] -> [M, B, ..., C]``. Raises ``DataError`` if shapes differ.

    Answers in the teachers' own tokens differ in length; they are padded to the longest.
    """
    if own_tokens and len({answer.shape for answer in answers}) > 1:
        answers = _padded_to_longest(answers)
    for index, answer in enumerate(answers):
        if answer.shape != answers[0].shape:
            raise DataError(
                f"teacher {index} answers in shape {list(answer.shape)}, "
                f"teacher 0 in {list(answers[0].shape)}"
            )
    return torch.stack(list(answers))


def _padded_to_longest(answers: Sequence[Tensor]) -> list[Tensor]:
    """Pad each axis to the longest of all answers."""
    shape = [max(sizes) for sizes in zip(*(answer.shape for answer in answers), strict=True)]
    padded = [answer.new_full(shape, PAD_LOGIT) for answer in answers]
    for target, answer in zip(padded, answers, strict=True):
        target[tuple(slice(size) for size in answer.shape)] = answer
    return padded


def _cast_once(model: torch.nn.Module, dtype: torch.dtype) -> None:
    """Cast frozen weights once, as autocast would for every batch; the logits are the same."""
    for part in model.modules():
        if isinstance(part, torch.nn.Linear):
            part.to(dtype)


def _load(directory: Path, task: Task) -> Any:
    """Load the model. Raises ``CheckpointError`` if a weight is not in the files."""
    import transformers

    auto = getattr(transformers, f"AutoModel{HEADS[type(task.kind)]}")
    model, missing = load_stored(auto, directory)
    refuse_random(directory, missing)
    return model
