"""The training loop: one page, for every objective, on one worker or many."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from road_ray.data.batching import Batch, to_device
from road_ray.errors import CheckpointError, InterruptedRunError
from road_ray.models.precision import autocast_dtype
from road_ray.objectives.base import Objective
from road_ray.training import profile as measure
from road_ray.training.allocator import keep_freed_memory
from road_ray.training.checkpoint.async_save import AsyncSaver, named_tensors
from road_ray.training.checkpoint.remote_copy import RemoteCopy
from road_ray.training.checkpoint.serialization import (
    load_optimizer,
    tensors_from_file,
)
from road_ray.training.compile import configure_networks
from road_ray.training.context import Training
from road_ray.training.fsdp import local_part, shard
from road_ray.training.loss_guard import LossGuard
from road_ray.training.mfu import ModelFlopsUtilization
from road_ray.training.monitoring.collapse import CollapseMonitor, gradient_norms
from road_ray.training.monitoring.oom import shapes
from road_ray.training.optimizer import ElectraAdamW, build_optimizer, clip, rate
from road_ray.training.periodic_eval import PeriodicEvaluation
from road_ray.training.signals import OUTSIDE, StopRequest
from road_ray.training.step import Tally, backward
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)

Steps = Callable[[int], Iterator[list[Batch]]]
"""``steps(start)`` gives the passes of step ``start``, ``start + 1``, ...: a pure function of the
seed.
"""


def train(
    objective: Objective, steps: Steps, training: Training, worker: Worker
) -> dict[str, float]:
    """Train to the last step, from the newest checkpoint if there is one; commits a checkpoint at
    the end. Gives the last row of the journal, which checkpoints have too.

    Raises ``DivergedError`` before the update that a non-finite loss would make,
    ``InterruptedRunError`` after SIGTERM or Ctrl-C, the state saved; ``Measured`` for a plan.
    """
    config, total = training.config, training.total_steps
    keep_freed_memory()
    trained = shard(objective, worker) if config.fsdp else objective.to(worker.device)
    configure_networks(trained.train(), config.activation_checkpointing, config.torch_compile)
    autocast = autocast_dtype(config.precision, worker.device, objective.encoder.config.hidden_size)
    if measure.asked():
        raise measure.measure(objective, steps, training, worker, autocast)
    optimizer = build_optimizer(trained, training.optimizer)
    start, kept = _resume(trained, optimizer, training, worker)
    warmup = training.optimizer.warmup(total)
    wrapped = worker.wrap(trained, sparse=objective.sparse)
    source, tally, row = steps(start), Tally(), dict[str, float](kept.get("row", {}))
    share = ModelFlopsUtilization(trained, worker, autocast)
    watch, periodic_eval = (
        CollapseMonitor(training.journal, total),
        PeriodicEvaluation(objective, trained, training, worker),
    )
    with (
        StopRequest() as stop,
        AsyncSaver(objective, trained, optimizer, training, worker) as saver,
    ):
        guard = LossGuard(training, saver, kept)
        for step in periodic_eval.steps(start, total):
            began = time.perf_counter()
            passes = next(source)
            waited = time.perf_counter() - began
            OUTSIDE.batch = shapes(passes)
            optimizer.set_rate(rate(step, total, warmup, training.optimizer.schedule))
            result = backward(
                wrapped,
                trained,
                [to_device(batch, worker.device) for batch in passes],
                worker,
                seed=training.seed,
                step=step,
                autocast=autocast,
            )
            done, last = step + 1, step + 1 == total
            told = last or _due(done, config.log_every_steps)
            norms = gradient_norms(trained) if told else {}
            norm = clip(trained, training.optimizer.max_grad_norm)
            if guard.admits(step, result, norm):
                optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            tally.add(result, passes, data_seconds=waited, step_seconds=time.perf_counter() - began)
            if told:
                norms |= {"train/grad_norm": float(norm), "train/lr": _rate_of(optimizer)}
                training.journal.write(done, row := share.of(tally.collect(worker) | norms, passes))
                watch.look(done, row)
            last = periodic_eval.after_step(done, last=last)
            stopped, save_now = stop.after_step(done, worker)
            if last or stopped or save_now or _due(done, config.save_every_steps):
                saver.save(done, guard.memory | {"row": row}, wait=last or stopped or save_now)
            if stopped and not last:
                raise _stopped(done, training)
    periodic_eval.finish()
    return row


def _stopped(done: int, training: Training) -> InterruptedRunError:
    return InterruptedRunError(
        f"stopped after step {done} of {training.total_steps}\n"
        f"  kept: {training.checkpoints.root}/step-{done:08d}\n"
        "  go on: run the same command again"
    )


def _due(done: int, every_steps: int | None) -> bool:
    return every_steps is not None and done % every_steps == 0


def _resume(
    objective: Objective, optimizer: ElectraAdamW, training: Training, worker: Worker
) -> tuple[int, dict[str, Any]]:
    """The step to go on with and what was kept with it: 0 and nothing, or those of the newest good
    checkpoint after loading it.
    """
    _fetch_from_mirror(training, worker)
    directory = training.checkpoints.newest()
    if directory is None:
        training.journal.truncate_after(0)  # rows of a run killed before its first checkpoint
        return 0, {}
    state = json.loads((directory / "state.json").read_text(encoding="utf-8"))
    then = state["identity"]
    changed = [
        name
        for name in sorted({*then, *training.identity})
        if then.get(name) != training.identity.get(name)
    ]
    if changed:
        lines = "".join(
            f"\n    {name}: then {then.get(name)}, now {training.identity.get(name)}"
            for name in changed
        )
        raise CheckpointError(
            f"{directory}: was trained with other inputs:{lines}\n"
            "  fix: restore them, or give another run directory to start afresh\n"
            "  kept: the checkpoint, untouched"
        )
    load_weights(objective, directory / "model.safetensors")
    load_optimizer(
        optimizer, tensors_from_file(directory / "optimizer.safetensors"), state["optimizer"]
    )
    training.journal.truncate_after(int(state["step"]))
    training.journal.event("resumed", step=state["step"], checkpoint=str(directory))
    if training.journal.enabled:
        _log.info("going on from %s", directory)
    return int(state["step"]), state


def _fetch_from_mirror(training: Training, worker: Worker) -> None:
    """A run directory without a checkpoint gets the newest copy of the mirror, if there is one.

    Raises ``CheckpointError`` when that is of another run.
    """
    root, mirror = training.checkpoints.root, training.config.mirror
    if mirror is None:
        return
    if worker.leads and not any(root.glob("step-*")):
        training.checkpoints.prepare()
        run = {"configuration": training.configuration, "identity": training.identity}
        fetched = RemoteCopy(mirror).pull(root, run)
        if fetched is not None:
            training.journal.event("fetched_from_mirror", checkpoint=fetched.name)
    worker.barrier()


def load_weights(objective: Objective, path: Path) -> None:
    """Those of a checkpoint's ``model.safetensors``. Raises ``CheckpointError`` when they are of
    another model.
    """
    saved, wanted = tensors_from_file(path), named_tensors(objective)
    if odd := sorted(saved.keys() ^ wanted.keys()):
        raise CheckpointError(
            f"{path}: of another model: {len(odd)} weights have no counterpart, "
            f"the first: {', '.join(odd[:3])}\n  fix: resume with the configuration of the run"
        )
    saved = {name: local_part(value, like=wanted[name]) for name, value in saved.items()}
    try:
        objective.load_state_dict(saved, strict=False)
    except RuntimeError as error:
        raise CheckpointError(
            f"{path}: {error}\n  fix: resume with the configuration of the run"
        ) from error


def _rate_of(optimizer: ElectraAdamW) -> float:
    """The undecayed, uncorrected rate of the heads: what the schedule says."""
    return optimizer.multiplier * max(float(group["peak_lr"]) for group in optimizer.param_groups)


def identity_of(**named: Any) -> dict[str, str]:
    """Short sha256 digests of what a resumed run must share."""
    return {
        name: hashlib.sha256(_bytes_of(value)).hexdigest()[:16] for name, value in named.items()
    }


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return json.dumps(value, sort_keys=True, default=str).encode()
