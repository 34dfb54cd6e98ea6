"""Training loop for every objective, on one worker or many; the rows of its journal, which sum up
losses and speed over steps.
"""

import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, takewhile
from sys import maxsize
from typing import Any

import torch
from safetensors.torch import load_file
from torch.profiler import record_function

from road_ray.data.batching import Batch
from road_ray.errors import CheckpointError, InterruptedRunError
from road_ray.models.attention import use_attention
from road_ray.models.precision import autocast_dtype
from road_ray.objectives.base import Objective
from road_ray.system.operating_system import keep_freed_memory
from road_ray.training.checkpoint_directory import RemoteCopy, changed_inputs
from road_ray.training.checkpoint_state import AsyncSaver, restore
from road_ray.training.early_stopping import PeriodicEvaluation
from road_ray.training.gradients import LossGuard, StepResult, backward
from road_ray.training.optimizer import ElectraAdamW, build_optimizer, clip, rate
from road_ray.training.profile import BACKWARD, forward_flops, measure, peak_flops
from road_ray.training.run_context import StopRequest, Training
from road_ray.training.worker import (
    compile_encoders,
    encoders_of,
    one_ahead,
    recompute,
    shard,
)

_log = logging.getLogger(__name__)
_SIZES = ("tokens", "positions", "examples", "time/steps")

Steps = Callable[[int], Iterator[list[Batch]]]
"""``steps(start)`` yields the batches of update ``start``, ``start + 1``, ...; each list is one
update, its batches the passes: with ``training.passes`` above 1 the pieces of one batch, else the
batches of a mixture, whose gradients are averaged. A pure function of the seed.
"""


def train(objective: Objective, steps: Steps, training: Training) -> dict[str, float]:
    """Train to the last step, starting from the newest checkpoint if there is one, and save a
    checkpoint at the end. Return the last row of the journal, which checkpoints hold too.

    With ``context.plan_only`` nothing is trained: ``context.measured`` is set and the result is
    empty. Raises ``DivergedError`` before an update with a non-finite loss or gradient, and
    ``InterruptedRunError`` after SIGTERM or Ctrl-C, when a checkpoint has been saved.
    """
    config, total, context = training.config, min(training.total_steps, maxsize), training.context
    worker = training.worker
    autocast = autocast_dtype(config.precision, worker.device, objective.encoder.config.hidden_size)
    trained, warmup = _set_up(objective, training, autocast)
    if context.plan_only:
        context.measured = measure(objective, steps, training, autocast)
        return {}
    optimizer = build_optimizer(trained, training.optimizer)
    start, state = _resume(trained, optimizer, training)
    wrapped = worker.wrap(trained, sparse=objective.sparse)
    compute = partial(backward, seed=training.seed, autocast=autocast, one_batch=config.passes > 1)
    report = StepMetrics(trained, training, autocast, state)
    evaluation = PeriodicEvaluation(objective, trained, training, state)
    batches = one_ahead(islice(steps(start), total - start), trained, worker.device)
    with (
        StopRequest(context) as stop,
        AsyncSaver(objective, trained, optimizer, training) as saver,
    ):
        guard = LossGuard(training, saver, optimizer, state)
        for step in takewhile(lambda _: not evaluation.over, range(start, total)):
            done = step + 1
            started = time.perf_counter()
            with record_function("data"):  # waits where rows or teachers are slower than training
                passes, moved = next(batches)
            data_seconds = time.perf_counter() - started
            shapes = (" x ".join(map(str, batch["input_ids"].shape)) for batch in passes)
            context.batch = f"{', '.join(shapes)} tokens"  # named if memory runs out
            multiplier = rate(step, total, warmup, training.optimizer.schedule)
            learning_rate = optimizer.set_rate(multiplier)
            with record_function("forward_and_backward"):
                result = compute(wrapped, trained, moved, worker, step=step)
            with record_function("update"):
                norm = clip(trained, training.optimizer.max_grad_norm)
                guard.update(step, result, norm)  # not of a loss that is not finite
                optimizer.zero_grad(set_to_none=True)
            if report.add(done, result, passes, data_seconds, started):
                guard.check()  # reads the losses that the updates did not wait for
                row = {"train/grad_norm": float(norm), "train/lr": learning_rate}
                report.write(done, row, passes)
            with record_function("evaluation"):
                last = evaluation.after_step(done, last=done == total)
            stopped, save_now = stop.after_step(done, worker)
            wait = last or stopped or save_now
            if wait or done % config.save_every_steps == 0:
                with record_function("checkpoint"):
                    guard.check()  # its losses are those of all steps then
                    memory = {"losses": [*guard.recent], "scores": evaluation.scores}
                    saver.save(done, memory | report.memory, evaluation.best, wait=wait)
            if stopped and not last:
                raise _interrupted(done, training)
    evaluation.finish()
    return report.row


def _set_up(
    objective: Objective, training: Training, autocast: torch.dtype | None
) -> tuple[Objective, int]:
    """Place the objective on the worker's device, sharded or whole, with the options of its
    networks. Return it and the number of warm-up steps, and warn of those that leave no others.
    """
    config, total, worker = training.config, training.total_steps, training.worker
    keep_freed_memory()
    trained = shard(objective, worker, autocast) if config.fsdp else objective.to(worker.device)
    for encoder in encoders_of(trained.train()):
        if training.attention != "auto":
            use_attention(encoder, training.attention, autocast)
    if config.activation_checkpointing:
        recompute(trained)
    if config.torch_compile:
        compile_encoders(trained)
    given = training.optimizer.warmup_steps
    warmup = given if isinstance(given, int) else round(given * total)
    if worker.is_main and 1 < total <= warmup:
        _log.warning(
            "optimizer.warmup_steps = %d of %d steps: the learning rate never reaches "
            "optimizer.peak_lr; a tenth of the steps is usual: optimizer.warmup_steps=%d",
            *(warmup, total, max(total // 10, 1)),
        )
    return trained, warmup


def _interrupted(done: int, training: Training) -> InterruptedRunError:
    return InterruptedRunError(
        f"stopped after step {done} of {training.total_steps}\n"
        f"  kept: {training.checkpoints.root}/step-{done:08d}\n"
        "  to resume, run the same command"
    )


def _resume(
    objective: Objective, optimizer: ElectraAdamW, training: Training
) -> tuple[int, dict[str, Any]]:
    """Load the newest valid checkpoint, of the mirror in a run directory that has none; return the
    number of its finished steps and its ``state.json``, or 0 and an empty dict without any.

    Raises ``CheckpointError`` when the inputs of the run have changed, and for a mirror of another
    run.
    """
    checkpoints, mirror = training.checkpoints, training.config.mirror
    if mirror is not None:
        if training.worker.is_main and not any(checkpoints.root.glob("step-*")):
            run = {"configuration": training.configuration, "identity": training.identity}
            fetched = RemoteCopy(mirror).pull(checkpoints.root, run)
            if fetched is not None:
                training.journal.event("fetched_from_mirror", checkpoint=fetched.name)
        training.worker.barrier()
    directory = checkpoints.newest()
    if directory is None:
        if made := training.journal.truncate_after(0):
            text = f"no checkpoint: the {made} steps of an earlier start are made again"
            training.journal.event("restarted", text, warn=True, steps=made)
        return 0, {}
    state = json.loads((directory / "state.json").read_text(encoding="utf-8"))
    if changed := changed_inputs(state, {"identity": training.identity}):
        raise CheckpointError(
            f"{directory}: was trained with other inputs:{changed}\n"
            "  fix: restore them, or name another run directory to start again\n"
            "  kept: the checkpoint, unchanged"
        )
    restore(objective, optimizer, directory, state)
    if training.worker.is_main and (directory / "best.safetensors").is_file():
        state["best"] = load_file(directory / "best.safetensors")
    training.journal.truncate_after(int(state["step"]))
    training.context.step = int(state["step"])
    text = f"resuming from {directory}"
    training.journal.event("resumed", text, step=state["step"], checkpoint=str(directory))
    return int(state["step"]), state


class StepMetrics:
    """Sums over the steps since the last row; ``row`` is the last one that was written."""

    def __init__(
        self,
        trained: Objective,
        training: Training,
        autocast: torch.dtype | None,
        state: Mapping[str, Any],
    ) -> None:
        self.row: dict[str, float] = dict(state.get("row", {}))
        self._training, self._worker = training, training.worker
        # By default 50 steps between rows, fewer in a short run, for 20 points in a curve.
        default = min(50, max(1, training.total_steps // 20))
        self._every = training.config.log_every_steps or default
        self._trained, self._autocast = trained, autocast
        self._flops_per_position, self._counted_width = 0.0, 0
        # What a checkpoint has of all workers goes on in rank 0; the others have the same names.
        sums, stats = state.get("since_row", ({}, {}))
        main, device = training.worker.is_main, training.worker.device
        self._sums = {n: [main * torch.tensor(x, device=device)] for n, x in sums.items()}
        self._stats = defaultdict[str, float](float, {n: main * x for n, x in stats.items()})

    @property
    def memory(self) -> dict[str, Any]:
        """State to save with checkpoints, so that the next row of a resumed run counts the steps
        before it too. Collective.
        """
        return {"row": self.row, "since_row": self._totals() if self._sums else ({}, {})}

    def _totals(self) -> tuple[dict[str, list[float]], dict[str, float]]:
        """Return sums and counts over all workers, and the seconds of this one. Collective."""
        worker = self._worker
        sums = {n: worker.total(torch.stack(x).sum(0)).tolist() for n, x in self._sums.items()}
        # Workers may have different names, for example if only one has dropped a teacher.
        names = worker.union(name for name in self._stats if not name.startswith("time/"))
        stats = torch.tensor([self._stats[name] for name in names])
        counted = worker.total(stats.to(worker.device)).tolist()
        return sums, {**self._stats, **dict(zip(names, counted, strict=True))}

    def add(
        self,
        done: int,
        result: StepResult,
        passes: Sequence[Batch],
        data_seconds: float,
        started: float,
    ) -> bool:
        """Add step ``done``, which began at ``started`` of ``time.perf_counter()``, and return True
        when it gets a row; before a row, wait for the device, so that the seconds of all steps
        together are right. The ``stats`` of batches are summed too (teacher waits, histograms).
        """
        due = done == self._training.total_steps or done % self._every == 0
        if due:
            self._worker.synchronize()
        self._stats["time/step_seconds"] += time.perf_counter() - started
        self._stats["time/data_seconds"] += data_seconds
        for name, (total, count) in result.sums.items():
            # Left on the device: reading it would wait.
            self._sums.setdefault(name, []).append(torch.stack([total.float(), count.float()]))
        for batch in passes:
            self._stats["tokens"] += int(batch["attention_mask"].sum())
            self._stats["positions"] += batch["attention_mask"].numel()
            self._stats["examples"] += len(batch["input_ids"])
            for name, value in batch.get("stats", {}).items():
                self._stats[name] += float(value)
        self._stats["time/steps"] += 1
        return due

    def write(self, done: int, more: Mapping[str, float], passes: Sequence[Batch]) -> None:
        """Write the row of step ``done``, summed over all workers, with ``more``, and start anew;
        collective. ``time/mfu`` is the model FLOPs utilization, between 0 and 1; padding counts.
        """
        sums, stats = self._totals()
        tokens, positions, examples, steps = map(stats.pop, _SIZES)
        row = {name: total / max(count, 1.0) for name, (total, count) in sums.items()}
        row |= {n: x / steps if n.startswith("time/") else x for n, x in stats.items()}
        row["data/padding_fraction"] = 1 - tokens / max(positions, 1.0)
        row["time/tokens_per_second"] = tokens / stats["time/step_seconds"]
        row["time/examples_per_second"] = examples / stats["time/step_seconds"]
        self._sums.clear()
        self._stats.clear()
        # The FLOPs of a step are counted at the first row, and again when batches have become twice
        # as long: attention takes more FLOPs a token then.
        width = max(batch["attention_mask"].shape[-1] for batch in passes)
        given = self._worker, self._autocast
        if width >= 2 * self._counted_width:
            self._counted_width = width
            counted = sum(batch["attention_mask"].numel() for batch in passes)
            flops = sum(forward_flops(self._trained, batch, *given) for batch in passes)
            self._flops_per_position = (1 + BACKWARD) * flops / max(counted, 1)
        peak = peak_flops(self._worker.device, self._autocast or torch.float32) * self._worker.size
        positions_per_second = row["time/tokens_per_second"] / (1 - row["data/padding_fraction"])
        mfu = self._flops_per_position * positions_per_second / peak
        self.row = {**row, **more, "time/mfu": mfu}
        self._training.journal.write(done, self.row)
