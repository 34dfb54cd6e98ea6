"""State of a checkpoint: weights and optimizer as safetensors and JSON, whole or sharded.

Nothing is pickled, so that a checkpoint from elsewhere cannot run code. The loop waits for a copy
in memory, not for the disk: a thread writes it. The copies are taken between two steps, so a
checkpoint belongs to exactly one step.
"""

from __future__ import annotations

import copy
import json
import logging
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.optim import Optimizer

from road_ray.data.model_files import MODEL_RECORD, model_hashes
from road_ray.errors import CheckpointError, ResourceError
from road_ray.objectives.base import Objective
from road_ray.training.checkpoint_directory import RemoteCopy
from road_ray.training.optimizer import ElectraAdamW
from road_ray.training.run_context import Training

_log = logging.getLogger(__name__)

# Whole, on the CPU, under all names; copies only of what is elsewhere. Other workers than rank 0
# get none. Collective: a worker may hold only a shard.
GATHERED = StateDictOptions(full_state_dict=True, cpu_offload=True)
# Tied weights have one of their names, and a head without a step has no optimizer state.
_GIVEN = StateDictOptions(full_state_dict=True, strict=False)


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return every tensor once, tied and shared ones under their first name."""
    tensors = module.state_dict(keep_vars=True)
    first_names: dict[int, str] = {}
    for name, tensor in tensors.items():
        first_names.setdefault(id(tensor), name)
    return {name: tensors[name].detach() for name in first_names.values()}


def gathered_optimizer(
    trained: nn.Module, optimizer: Optimizer
) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """Return copies of the optimizer's tensors, named ``PARAMETER/STATE``, and its parameter
    groups. Other workers than rank 0 get none. Collective.
    """
    gathered: dict[str, Any] = get_optimizer_state_dict(trained, optimizer, options=GATHERED)
    # What is on a device has been copied already, except counts of steps, which may be on the host.
    on_host = next(trained.parameters()).device.type == "cpu"
    tensors = {
        f"{parameter}/{name}": value.clone() if on_host or not value.dim() else value
        for parameter, state in gathered.get("state", {}).items()
        for name, value in state.items()
    }
    return tensors, gathered.get("param_groups", [])


def restore(
    trained: nn.Module, optimizer: Optimizer, directory: Path, state: Mapping[str, Any]
) -> None:
    """Load weights and optimizer of a checkpoint, bit for bit; every worker reads the whole.

    Raises ``CheckpointError`` for an unreadable file, other weights or an older format.
    """
    if not isinstance(groups := state["optimizer"], list):
        raise CheckpointError(
            f"{directory}: an earlier version of road_ray wrote it and can resume it\n"
            "  fix: finish the run with that version, or name another run_dir to train again\n"
            "  kept: the checkpoint, unchanged"
        )
    try:
        load_weights(trained, directory)
        states: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for name, value in load_file(directory / "optimizer.safetensors").items():
            parameter, _, entry = name.rpartition("/")
            states[parameter][entry] = value
        given: dict[str, Any] = {"state": dict(states), "param_groups": groups}
        set_optimizer_state_dict(trained, optimizer, given, options=_GIVEN)
        for name, parameter in trained.named_parameters():
            if name not in states:  # PyTorch has made a state of zeros
                optimizer.state.pop(parameter, None)
    except (OSError, SafetensorError, RuntimeError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"{directory}: does not match this training: {error}\n"
            "  fix: resume with the configuration of the run"
        ) from error


def load_weights(trained: nn.Module, directory: Path) -> None:
    """Load the weights of a checkpoint. Raises ``CheckpointError`` for those of another model."""
    weights = load_file(directory / "model.safetensors")
    if unmatched := sorted(weights.keys() ^ named_tensors(trained).keys()):
        raise CheckpointError(
            f"{directory}: does not match the model: {len(unmatched)} missing or unexpected "
            f"tensors, such as {', '.join(unmatched[:3])}\n"
            "  fix: resume with the configuration of the run"
        )
    set_model_state_dict(trained, weights, options=_GIVEN)


class AsyncSaver(AbstractContextManager["AsyncSaver"]):
    """Writes checkpoints of one training, one at a time, on rank 0.

    The next call raises the error of a failed write.
    """

    def __init__(
        self, objective: Objective, trained: Objective, optimizer: ElectraAdamW, training: Training
    ) -> None:
        self._objective, self._trained, self._optimizer = objective, trained, optimizer
        self._training, self._worker = training, training.worker
        self._twin: Objective | None = None
        # A copy: a tokenizer in use by another thread cannot be saved.
        self._tokenizer = copy.deepcopy(training.tokenizer) if training.worker.is_main else None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[None] | None = None

    def save(
        self,
        step: int,
        memory: Mapping[str, object] | None = None,
        best: Mapping[str, Tensor] | None = None,
        *,
        wait: bool,
    ) -> None:
        """Save a checkpoint with ``memory`` in its ``state.json`` and the weights of the ``best``
        evaluation; collective. With ``wait`` it is on the disk on return, for all workers.
        """
        self.finish()
        weights = get_model_state_dict(self._trained, options=GATHERED)
        tensors, groups = gathered_optimizer(self._trained, self._optimizer)
        if self._worker.is_main:
            if self._twin is None:  # in host memory: a GPU may have no room for a second model
                buffers, parameters = self._objective.buffers(), self._objective.parameters()
                copies: dict[int, Any] = {id(x): x.detach().to("cpu", copy=True) for x in buffers}
                copies |= {
                    id(x): nn.Parameter(x.detach().to("cpu", copy=True), x.requires_grad)
                    for x in parameters
                }
                self._twin = copy.deepcopy(self._objective, copies).eval()
            self._twin.load_state_dict(weights)
            files = {"optimizer": tensors} | ({"best": best} if best else {})
            state = {"step": step, **(memory or {}), "optimizer": groups}
            state["identity"] = dict(self._training.identity)
            state["configuration"] = dict(self._training.configuration)
            text = json.dumps(state) + "\n"  # now: the next step changes the optimizer's groups
            self._writing = self._thread.submit(self._write, step, text, self._twin, files)
            if wait:
                self.finish()
        if wait:
            self._worker.barrier()

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
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()

    def _write(
        self, step: int, state: str, twin: Objective, files: Mapping[str, Mapping[str, Tensor]]
    ) -> None:
        def write(directory: Path) -> dict[str, str]:
            for file, tensors in {"model": named_tensors(twin), **files}.items():
                contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
                save_file(contiguous, directory / f"{file}.safetensors", metadata={"format": "pt"})
            (directory / "state.json").write_text(state, encoding="utf-8")
            twin.export(directory / "hf")
            if self._tokenizer is not None:
                self._tokenizer.save_pretrained(directory / "hf")
            if hashes := model_hashes(directory / "hf"):
                record = json.dumps({"files": hashes}, indent=2) + "\n"
                (directory / "hf" / MODEL_RECORD).write_text(record, encoding="utf-8")
            return {f"hf/{name}": digest for name, digest in hashes.items()}

        directory, config = self._training.checkpoints.save(step, write), self._training.config
        if config.mirror is None:
            return
        try:
            RemoteCopy(config.mirror, keep=config.keep_checkpoints).push(directory)
        except ResourceError as error:  # an event: the checkpoint itself is there
            journal = self._training.journal
            journal.event("mirror_failed", str(error), warn=True, checkpoint=directory.name)
