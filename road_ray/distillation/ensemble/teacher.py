"""A teacher: a frozen model that answers a batch with logits, and its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from road_ray.data.batching import INPUTS
from road_ray.data.model_files.locate_model import locate_model
from road_ray.data.task_and_dataset import Span, Tag, Task
from road_ray.distillation.ensemble.protocol import OWN_TOKENS, PAD_LOGIT
from road_ray.distillation.teacher_directory import (
    HEADS,
    check_teacher,
    refuse_random,
    teacher_input_names,
)
from road_ray.errors import CheckpointError, ConfigError, DataError
from road_ray.models.architectures import longest_row
from road_ray.models.config import TeacherPrecision
from road_ray.models.heads.label_order import LabelMap
from road_ray.models.load_weights import load_stored
from road_ray.models.performance.compilation import compile_for_all_shapes
from road_ray.models.performance.device_and_precision import autocast_dtype
from road_ray.models.performance.int8_linear import round_to_int8


class Teacher:
    """A frozen ``transformers`` model, its classes in the order of the task's labels.

    ``compiled``: ``torch.compile`` makes its kernels at the first answer, for batches of any shape.
    """

    def __init__(
        self,
        directory: str | Path,
        task: Task,
        *,
        label_map: LabelMap | None = None,
        device: str | torch.device = "cpu",
        precision: TeacherPrecision = "auto",
        compiled: bool = False,
    ) -> None:
        import transformers

        self.directory = locate_model(directory)
        self.task = task
        order = check_teacher(self.directory, task, label_map=label_map)
        auto = getattr(transformers, f"AutoModel{HEADS[type(task.kind)]}")
        model, missing = load_stored(auto, self.directory)
        refuse_random(self.directory, missing)
        self._model: Any = model.to(device).eval().requires_grad_(False)
        self._order = None if order is None else torch.tensor(order, device=device)
        self._autocast = self._reduce_precision(precision)
        names = teacher_input_names(self.directory, self._model)
        self._segments = "token_type_ids" in names
        self._positions = longest_row(self._model.base_model)
        if compiled:
            compile_for_all_shapes(self._model)

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
        if dtype is not None:  # once, as autocast would for every batch; the logits are the same
            for part in self._model.modules():
                if isinstance(part, torch.nn.Linear):
                    part.to(dtype)
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
        device, width = self.device, input_ids.shape[-1]
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self._segments:
            inputs["token_type_ids"] = token_type_ids
        autocast = torch.autocast(device.type, self._autocast, enabled=self._autocast is not None)
        with torch.inference_mode(), autocast:
            most = width
            if attention_mask is not None and not attention_mask[..., self._positions :].any():
                most = min(width, self._positions)  # padding may be beyond the position table
            present = {
                name: x[..., :most].to(device).long() for name, x in inputs.items() if x is not None
            }
            output = self._model(**present)
        # Cloned outside: a tensor of inference mode cannot be saved for a backward pass.
        if isinstance(self.task.kind, Span):
            logits = torch.stack([output.start_logits, output.end_logits], 1).float()
        else:
            logits = output.logits.float().clone()
        if self._order is not None:
            logits = logits[..., self._order]
        if isinstance(self.task.kind, Span | Tag) and attention_mask is not None:
            axis = 1 if isinstance(self.task.kind, Span) else 2
            beyond = (0, width - most) if axis == 1 else (0, 0, 0, width - most)
            logits = pad(logits, beyond)
            padding = attention_mask.to(logits.device) == 0
            logits = logits.masked_fill(padding.unsqueeze(axis), PAD_LOGIT)
        if not bool(logits.isfinite().all()):
            raise CheckpointError(
                f"{self.directory}: the teacher's logits are not finite\n  fix: fine-tune it again"
            )
        return logits


def inputs_of(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a teacher: tensors ``[B, L]`` each, and for teachers with another
    tokenizer the ``texts``, ``[B]`` tuples of strings, with ``offsets`` and the labels of spans,
    or ``words``.
    """
    if "input_ids" not in batch:
        raise DataError(f"the batch has no input_ids; it has {sorted(batch)}")
    names = [*INPUTS, "offsets", "words", OWN_TOKENS]
    if batch.get("offsets") is not None:  # to count answers that a teacher cannot express
        names += ["start_positions", "end_positions"]
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
