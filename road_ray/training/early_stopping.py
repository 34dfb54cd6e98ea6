"""Periodic evaluation and early stopping: with ``patience`` the training ends when evaluations no
longer improve, and the weights of the best one remain.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from road_ray.errors import ConfigError, InterruptedRunError
from road_ray.objectives.base import Objective
from road_ray.training.checkpoint.async_save import named_tensors
from road_ray.training.checkpoint.serialization import tensors_from_file, tensors_to_file
from road_ray.training.fsdp import assemble, assembled
from road_ray.training.run_context import Training
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)

_CHECKPOINT = re.compile(r"\.?step-(\d+)")  # committed, or still being written
# Metrics that papers report for each kind of task.
_REPORTED = {"f1", "macro_f1", "accuracy", "entity_f1", "matthews", "pearson", "spearman"}


def score_of(figures: Mapping[str, float], metric: str | None) -> float:
    """Return ``metric``, or the mean of one metric for each data set: the F1 of spans, else the
    first of the metrics that papers report. Larger is better.

    Raises ``ConfigError`` for a metric that was not evaluated, and if nothing was.
    """
    if not any(name.startswith("eval/") for name in figures):
        raise ConfigError(
            "training.early_stopping.patience: the evaluation has no figures, as no row has a label"
            "\n  fix: leave early_stopping.patience out, or evaluate on labelled rows"
        )
    if metric is not None and metric not in figures:
        raise ConfigError(
            f"training.early_stopping.metric = {metric}: no metric of that name\n"
            f"  allowed: {', '.join(sorted(name for name in figures if name.startswith('eval/')))}"
        )
    if metric is not None:
        return figures[metric]
    names_of: dict[str, list[str]] = {}
    for name in figures:
        if name.startswith("eval/"):
            names_of.setdefault(name.rpartition("/")[0], []).append(name)
    return fmean(figures[_principal(names)] for names in names_of.values())


def _principal(names: Sequence[str]) -> str:
    """Return the principal one of the figures of a data set, in the order of its metrics."""
    last = [name.rpartition("/")[2] for name in names]
    if "exact" in last and "f1" in last:  # of spans
        return names[last.index("f1")]
    reported = (n for n, metric in zip(names, last, strict=True) if metric in _REPORTED)
    return next(reported, names[0])


class PeriodicEvaluation:
    """Evaluations of one training. Their scores are part of the ``state`` of checkpoints, so that a
    resumed run stops at the same step as one that was never interrupted.
    """

    def __init__(
        self,
        objective: Objective,
        trained: Objective,
        training: Training,
        worker: Worker,
        state: Mapping[str, Any],
    ) -> None:
        self._objective, self._trained = objective, trained
        self._training, self._worker = training, worker
        self._every = training.config.evaluate_every_steps if training.evaluate else None
        self._patience = training.config.early_stopping.patience
        if self._patience is not None and self._every is None:
            raise ConfigError(
                f"training.early_stopping.patience = {self._patience}: "
                "nothing is evaluated while training\n"
                "  fix: training.evaluate_every_steps=..., or leave early_stopping.patience out"
            )
        self._weights = BestWeights(training.checkpoints.root)
        self._scores = {int(step): score for step, score in state.get("scores", {}).items()}
        if self._patience is not None and worker.leads:
            self._forget_lost()
        self.over = self._is_over()

    def _forget_lost(self) -> None:
        """Forget evaluations whose weights are missing, and remove weights without an evaluation,
        because a resumed run may evaluate the same step again with another score.
        """
        self._weights.keep_only(self._scores)
        saved, lost = self._weights.steps(), list[int]()
        while self._scores and self._best not in saved:
            lost.append(self._best)
            del self._scores[lost[-1]]
        if lost:
            best = self._best if self._scores else None
            remaining = "none" if best is None else f"of step {best}"
            text = "weights of the best evaluation, at step %d, are missing; the best left is %s"
            _log.warning(text, lost[0], remaining)
            self._training.journal.event("best_weights_lost", step=lost[0], best_step=best)

    @property
    def memory(self) -> dict[str, Any]:
        """State to save with checkpoints."""
        return {"scores": dict(self._scores)}

    def steps(self, start: int, total: int) -> Iterator[int]:
        """Yield the steps from ``start`` to ``total``, or until early stopping."""
        for step in range(start, total):
            if self.over:
                return
            yield step

    def after_step(self, done: int, *, last: bool) -> bool:
        """Evaluate if it is due; return True if the training ends here. Collective."""
        due = self._every is not None and done % self._every == 0
        if (due and not last) or (last and self._patience is not None):
            with assembled(self._objective, self._trained, self._worker):
                if self._worker.leads:
                    self._evaluate(done)
            self._worker.barrier()
            self.over = self._is_over()
            if self.over and not last and self._worker.leads:
                text = "no better figure in %d evaluations: ended after step %d, best at step %d"
                _log.info(text, self._patience, done, self._best)
                self._training.journal.event("stopped_early", step=done, best_step=self._best)
        return last or self.over

    def _evaluate(self, done: int) -> None:
        training, objective = self._training, self._objective
        assert training.evaluate is not None
        objective.eval()
        try:
            figures = dict(training.evaluate())
        except InterruptedRunError as error:  # the loop stops too, and saves first
            _log.warning("the evaluation of step %d is abandoned: %s", done, error)
            return
        finally:
            objective.train()
        if self._patience is not None:
            self._scores[done] = score_of(figures, training.config.early_stopping.metric)
            if self._best == done:
                self._save_best()
        training.journal.write(done, figures)

    @property
    def _best(self) -> int:
        """Step of the best evaluation, the first of equals."""
        return self._best_of(self._scores)

    def _best_of(self, steps: Iterable[int]) -> int:
        return max(steps, key=lambda step: (self._scores[step], -step))

    def _is_over(self) -> bool:
        """Return True if patience is exhausted; the leading worker decides for all."""
        worse = 0.0
        if self._patience is not None and self._worker.leads and self._scores:
            worse = float(sum(step > self._best for step in self._scores) >= self._patience)
        if self._patience is None or self._worker.size == 1:
            return bool(worse)
        return bool(self._worker.total(torch.tensor(worse, device=self._worker.device)))

    def _save_best(self) -> None:
        """Save the current weights as the best; keep those that a resumed run may need."""
        self._weights.save(self._best, named_tensors(self._objective))
        needed = set(sorted(self._weights.steps())[-2:])  # a checkpoint may be about to be written
        for name in os.listdir(self._training.checkpoints.root):
            if checkpoint := _CHECKPOINT.match(name):
                before = [step for step in self._scores if step <= int(checkpoint[1])]
                needed |= {self._best_of(before)} if before else set()
        self._weights.keep_only(needed)

    def finish(self) -> None:
        """Load the last weights, or those of the best evaluation, into the objective of the leading
        worker. Collective.
        """
        assemble(self._objective, self._trained, self._worker)
        if self._patience is None or not self._worker.leads:
            return
        if not self._scores:  # restored from a mirror, which has no best weights
            _log.warning("no weights of an evaluation are left: the last weights are used")
            return
        self._objective.load_state_dict(self._weights.load(self._best), strict=False)
        self._training.journal.event("best_checkpoint", step=self._best)
        self._weights.keep_only([self._best])


class BestWeights:
    """Saved weights of evaluations, ``best-NNNNNNNN.safetensors``, beside the checkpoints."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def _path(self, step: int) -> Path:
        return self._root / f"best-{step:08d}.safetensors"

    def steps(self) -> set[int]:
        """Return the steps with saved weights."""
        return {int(path.stem[5:]) for path in self._root.glob("best-*.safetensors")}

    def save(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        """Save the weights of a step, atomically; an earlier file is replaced."""
        self._root.mkdir(parents=True, exist_ok=True)
        staged = self._root / "best.partial"
        tensors_to_file(staged, tensors)
        os.replace(staged, self._path(step))

    def load(self, step: int) -> dict[str, Tensor]:
        """Return the weights of a step. Raises ``CheckpointError`` if there are none."""
        return tensors_from_file(self._path(step))

    def keep_only(self, steps: Iterable[int]) -> None:
        """Remove the weights of all other steps."""
        for step in self.steps().difference(steps):
            self._path(step).unlink(missing_ok=True)
