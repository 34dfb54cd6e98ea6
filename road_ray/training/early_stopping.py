"""Periodic evaluation and early stopping: with ``patience`` the training ends when evaluations no
longer improve, and the weights of the best one remain.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.state_dict import get_model_state_dict

from road_ray.errors import ConfigError, InterruptedRunError
from road_ray.objectives.base import Objective
from road_ray.training.checkpoint_state import GATHERED, named_tensors
from road_ray.training.run_context import Training

_log = logging.getLogger(__name__)


def score_of(figures: Mapping[str, float], metric: str | None) -> float:
    """Return ``metric``, or the mean of the principal metric of each data set: the F1 of spans and
    of entities, else the first. Larger is better.

    Raises ``ConfigError`` for a metric that was not evaluated, and if nothing was.
    """
    of_dataset = defaultdict[str, dict[str, float]](dict)
    for name, value in figures.items():
        dataset, _, last = name.removeprefix("eval/").partition("/")  # labels may have slashes
        if name.startswith("eval/"):
            of_dataset[dataset][last] = value
    if not of_dataset:
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
    scores = []
    for values in of_dataset.values():
        principal = "f1" if "exact" in values else "entity_f1"  # "exact" is a metric of spans
        scores.append(values.get(principal, next(iter(values.values()))))
    return fmean(scores)


class PeriodicEvaluation:
    """Evaluations of one training. Their scores and the weights of the best one are part of
    checkpoints, so that a resumed run stops at the same step, with the same weights, as one that
    was never interrupted.
    """

    def __init__(
        self, objective: Objective, trained: Objective, training: Training, state: Mapping[str, Any]
    ) -> None:
        self._objective, self._trained = objective, trained
        self._training, self._worker = training, training.worker
        self._every = training.config.evaluate_every_steps if training.evaluate else None
        self._patience = training.config.early_stopping.patience
        self.scores = {int(step): score for step, score in state.get("scores", {}).items()}
        """By step; part of checkpoints, as are the weights of the best evaluation."""
        self.best: dict[str, Tensor] = state.get("best", {})
        """Weights of the best evaluation, on the CPU of rank 0."""
        self.over = self._patience is not None and self._is_over(self._patience)

    def after_step(self, done: int, *, last: bool) -> bool:
        """Evaluate if it is due; return True if the training ends here. Collective."""
        due = self._every is not None and done % self._every == 0
        if (due and not last) or (last and self._patience is not None):
            if self._objective is not self._trained:
                self._assemble()
                self._worker.copy_from_first(self._objective)
            self._evaluate(done)
            if self._objective is not self._trained:  # the shards need the memory of the device
                self._objective.to("cpu" if self._worker.is_main else "meta")
            self._worker.barrier()
            self.over = self._patience is not None and self._is_over(self._patience)
            if self.over and not last and self._worker.is_main:
                best, text = self._best_step, f"no better figure in {self._patience} evaluations: "
                text += f"ended after step {done}, best at step {best}"
                self._training.journal.event("stopped_early", text, step=done, best_step=best)
        return last or self.over

    def _assemble(self) -> None:
        """Copy the current weights, where they are sharded, into the objective of rank 0.
        Collective.
        """
        weights = get_model_state_dict(self._trained, options=GATHERED)
        if self._worker.is_main:
            self._objective.load_state_dict(weights)

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
        if not self._worker.is_main:
            return
        if self._patience is not None:
            self.scores[done] = score_of(figures, training.config.early_stopping.metric)
            if self._best_step == done:
                tensors = named_tensors(objective)
                self.best = {name: t.to("cpu", copy=True) for name, t in tensors.items()}
        training.journal.write(done, figures)

    @property
    def _best_step(self) -> int:
        """Step of the best evaluation, the first of equals."""
        return max(self.scores, key=lambda step: (self.scores[step], -step))

    def _is_over(self, patience: int) -> bool:
        """Return True if patience is exhausted; rank 0, which has the scores, decides for all."""
        over = sum(step > self._best_step for step in self.scores) >= patience
        flag = torch.tensor(float(over), device=self._worker.device)
        return bool(self._worker.total(flag))

    def finish(self) -> None:
        """Load the last weights, or those of the best evaluation, into the objective of every
        worker. Collective.
        """
        if self._objective is not self._trained:
            self._assemble()
        if self.best:
            self._objective.load_state_dict(self.best, strict=False)
            self._training.journal.event("best_checkpoint", step=self._best_step)
        if self._objective is not self._trained or self._patience is not None:
            self._worker.copy_from_first(self._objective)
