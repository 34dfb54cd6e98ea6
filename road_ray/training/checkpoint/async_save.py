"""Asynchronous checkpoints: the loop waits for a copy in memory, not for the disk.

A thread writes a copy of the objective on the CPU and a copy of the optimizer's state. Both are
taken between two steps, so a checkpoint belongs to exactly one step.
"""

from __future__ import annotations

import copy
import json
import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from road_ray.data.model_files.locate_model import MODEL_RECORD, model_hashes
from road_ray.errors import ResourceError
from road_ray.objectives.base import Objective
from road_ray.training.checkpoint.remote_copy import RemoteCopy
from road_ray.training.checkpoint.serialization import optimizer_tensors, tensors_to_file
from road_ray.training.fsdp import copy_weights, full_tensor
from road_ray.training.optimization.optimizer import ElectraAdamW
from road_ray.training.run_context import Training
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)


class AsyncSaver:
    """Writes checkpoints of one training, one at a time, on the leading worker.

    The next call raises the error of a failed write.
    """

    def __init__(
        self,
        objective: Objective,
        trained: Objective,
        optimizer: ElectraAdamW,
        training: Training,
        worker: Worker,
    ) -> None:
        self._objective, self._trained, self._optimizer = objective, trained, optimizer
        self._training, self._worker = training, worker
        self._twin: Objective | None = None
        # A copy: a tokenizer in use by another thread cannot be saved.
        self._tokenizer = copy.deepcopy(training.tokenizer) if worker.leads else None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.blocked_seconds = 0.0  # total time that the loop has waited for saving

    def save(self, step: int, memory: Mapping[str, object] | None = None, *, wait: bool) -> None:
        """Save a checkpoint, with ``memory`` in its ``state.json``; collective. With ``wait`` it is
        on the disk on return, for all workers.
        """
        started = time.perf_counter()
        self.finish()
        copied = self._copied()  # collective: a worker may hold only a shard
        if copied is not None:
            self._start(step, memory or {}, *copied)
            if wait:
                self.finish()
        self.blocked_seconds += time.perf_counter() - started
        if wait:
            self._worker.barrier()

    def __enter__(self) -> AsyncSaver:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for the write in progress; an error of the loop takes precedence over its error."""
        try:
            self.finish()
        except Exception as error:
            if kind is None:
                raise
            _log.warning("the last checkpoint could not be written: %s", error)

    def finish(self) -> None:
        """Wait for the write in progress. Raises the error of the last write."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _start(
        self,
        step: int,
        memory: Mapping[str, object],
        twin: Objective,
        moments: dict[str, Tensor],
        layout: dict[str, Any],
    ) -> None:
        state = {
            "step": step,
            "seed": self._training.seed,
            **memory,
            "identity": dict(self._training.identity),
            "configuration": dict(self._training.configuration),
            "record": dict(self._training.record),
            "optimizer": layout,
        }

        def write(directory: Path) -> None:
            tensors_to_file(directory / "model.safetensors", named_tensors(twin))
            tensors_to_file(directory / "optimizer.safetensors", moments)
            (directory / "state.json").write_text(json.dumps(state) + "\n", encoding="utf-8")
            twin.export(directory / "hf")
            if self._tokenizer is not None:
                self._tokenizer.save_pretrained(directory / "hf")
            if files := model_hashes(directory / "hf"):
                record = json.dumps({"files": files}, indent=2) + "\n"
                (directory / "hf" / MODEL_RECORD).write_text(record, encoding="utf-8")

        def commit() -> None:
            try:
                self._copy(self._training.checkpoints.save(step, write))
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=commit, name="checkpoint", daemon=True)
        self._thread.start()

    def _copy(self, directory: Path) -> None:
        """Copy a checkpoint to the mirror, if there is one; a failure is an event, not an error."""
        config = self._training.config
        if config.mirror is None:
            return
        try:
            RemoteCopy(config.mirror, keep=config.keep_checkpoints).push(directory)
        except ResourceError as error:
            _log.warning("%s", error)
            self._training.journal.event("mirror_failed", checkpoint=directory.name)

    @torch.no_grad()
    def _copied(self) -> tuple[Objective, dict[str, Tensor], dict[str, Any]] | None:
        """Return copies of the objective and of the optimizer's tensors, and the optimizer's
        layout; None on workers that do not lead. Collective.
        """
        if self._twin is None and self._worker.leads:
            self._twin = _copy_on_cpu(self._objective)
        copy_weights(self._trained, self._twin)
        tensors, layout = optimizer_tensors(self._optimizer)
        moments = {}
        for name, tensor in tensors.items():
            value = full_tensor(tensor)
            if self._worker.leads:
                moments[name] = value.detach().to("cpu", copy=True)
        return None if self._twin is None else (self._twin, moments, copy.deepcopy(layout))


def _copy_on_cpu(objective: Objective) -> Objective:
    """Return a copy whose tensors are in host memory from the start; a GPU may have no room for a
    second model.
    """
    copies: dict[int, Any] = {id(b): b.detach().to("cpu", copy=True) for b in objective.buffers()}
    for weight in objective.parameters():
        there = weight.detach().to("cpu", copy=True)
        copies[id(weight)] = nn.Parameter(there, requires_grad=weight.requires_grad)
    return copy.deepcopy(objective, copies).eval()


def named_tensors(objective: Any) -> dict[str, Tensor]:
    """Return every tensor once, tied and shared ones under their first name."""
    by_identity: dict[int, str] = {}
    tensors = objective.state_dict(keep_vars=True)
    for name, tensor in tensors.items():
        by_identity.setdefault(id(tensor), name)
    return {name: tensors[name].detach() for name in by_identity.values()}
