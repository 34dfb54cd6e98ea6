"""Looks at how a model does while it trains; with patience they end the training, and the weights
of the best look are those that it leaves.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from road_ray.errors import ConfigError, InterruptedRunError
from road_ray.objectives.base import Objective
from road_ray.training.checkpoint.async_save import named_tensors
from road_ray.training.checkpoint.serialization import tensors_from_file, tensors_to_file
from road_ray.training.context import Training
from road_ray.training.fsdp import assemble, assembled
from road_ray.training.monitoring.journal import read_metrics
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)

_CHECKPOINT = re.compile(r"\.?step-(\d+)")  # committed, or still being written
# What papers print of each kind of task; the thresholds of SQuAD 2.0 are counted by ``f1``.
_WATCHED = ("f1", "exact", "accuracy", "entity_f1", "matthews", "pearson", "spearman")


def score_of(figures: Mapping[str, float], watch: str | None) -> float:
    """The figure that is watched, or the mean of those that papers print; larger is better."""
    if watch is not None and watch not in figures:
        raise ConfigError(
            f"training.early_stopping.metric = {watch}: no figure of that name\n"
            f"  allowed: {', '.join(sorted(name for name in figures if name.startswith('eval/')))}"
        )
    if watch is not None:
        return figures[watch]
    judged = {name: value for name, value in figures.items() if name.startswith("eval/")}
    printed = [value for name, value in judged.items() if name.rsplit("/", 1)[-1] in _WATCHED]
    return fmean(printed or judged.values())


class PeriodicEvaluation:
    """The evaluations of one training. What they found is read back from the journal, so that a
    resumed run is as patient as one that was never stopped.
    """

    def __init__(
        self, objective: Objective, trained: Objective, training: Training, worker: Worker
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
        self._found: dict[int, float] = {}
        path = training.journal.run_dir / "metrics.jsonl"
        if self._patience is not None and training.journal.enabled:
            for row in read_metrics(path) if path.is_file() else ():
                figures = {k: v for k, v in row.items() if k.startswith("eval/") and v is not None}
                if figures:
                    self._found.setdefault(
                        row["step"], score_of(figures, training.config.early_stopping.metric)
                    )
            self._forget_lost()
        self.over = self._is_over()

    def _forget_lost(self) -> None:
        """A look whose weights are gone cannot be the best one; nor may weights be taken for those
        of a look that was made again, with other figures, after a resume.
        """
        self._weights.keep_only(self._found)
        there, lost = self._weights.steps(), list[int]()
        while self._found and self._best not in there:
            lost.append(self._best)
            del self._found[lost[-1]]
        if lost:
            best = self._best if self._found else None
            left = "none" if best is None else f"that of step {best}"
            text = "the weights of the best look, at step %d, are gone; the best that is left: %s"
            _log.warning(text, lost[0], left)
            self._training.journal.event("best_weights_lost", step=lost[0], best_step=best)

    def steps(self, start: int, total: int) -> Iterator[int]:
        """``start``, ``start + 1``, ... below ``total``, or until patience is at its end."""
        for step in range(start, total):
            if self.over:
                return
            yield step

    def after_step(self, done: int, *, last: bool) -> bool:
        """Look if it is time to; whether the training ends here."""
        due = self._every is not None and done % self._every == 0
        if (due and not last) or (last and self._patience is not None):
            with assembled(self._objective, self._trained, self._worker):
                if self._worker.leads:
                    self._look(done)
            self._worker.barrier()
            self.over = self._is_over()
            if self.over and not last and self._worker.leads:
                text = "no better figure in %d evaluations: ended after step %d, best at step %d"
                _log.info(text, self._patience, done, self._best)
                self._training.journal.event("stopped_early", step=done, best_step=self._best)
        return last or self.over

    def _look(self, done: int) -> None:
        training, objective = self._training, self._objective
        assert training.evaluate is not None
        objective.eval()
        try:
            figures = dict(training.evaluate())
        except InterruptedRunError as error:  # the loop is stopped too, and saves before it ends
            _log.warning("the evaluation of step %d is given up: %s", done, error)
            return
        finally:
            objective.train()
        if self._patience is not None:
            # Weighed before the row is written: a kill between the two costs a look, not the best.
            self._found[done] = score_of(figures, training.config.early_stopping.metric)
            if self._best == done:
                self._keep()
        training.journal.write(done, figures)

    @property
    def _best(self) -> int:
        """The step of the best look, the first of equals."""
        return self._best_of(self._found)

    def _best_of(self, steps: Iterable[int]) -> int:
        return max(steps, key=lambda step: (self._found[step], -step))

    def _is_over(self) -> bool:
        """The same on all workers: the one that leads knows."""
        worse = 0.0
        if self._patience is not None and self._worker.leads and self._found:
            worse = float(sum(step > self._best for step in self._found) >= self._patience)
        if self._patience is None or self._worker.size == 1:
            return bool(worse)
        return bool(self._worker.total(torch.tensor(worse, device=self._worker.device)))

    def _keep(self) -> None:
        """The weights of now are the best; those that a resumed run may need stay beside them."""
        self._weights.save(self._best, named_tensors(self._objective))
        needed = set(sorted(self._weights.steps())[-2:])  # a checkpoint may be about to be staged
        for name in os.listdir(self._training.checkpoints.root):
            if checkpoint := _CHECKPOINT.match(name):
                before = [step for step in self._found if step <= int(checkpoint[1])]
                needed |= {self._best_of(before)} if before else set()
        self._weights.keep_only(needed)

    def finish(self) -> None:
        """Put the last weights, or those of the best look, into the objective, on the worker that
        judges it.
        """
        assemble(self._objective, self._trained, self._worker)
        if self._patience is None or not self._worker.leads:
            return
        if not self._found:  # the run came back from a mirror, after its last look
            _log.warning("no look is known any more: the last weights are judged")
            return
        self._objective.load_state_dict(self._weights.load(self._best), strict=False)
        self._weights.keep_only([self._best])


class BestWeights:
    """The weights of looks, ``best-NNNNNNNN.safetensors`` by their step, beside the checkpoints."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def _path(self, step: int) -> Path:
        return self._root / f"best-{step:08d}.safetensors"

    def steps(self) -> set[int]:
        """Those that are there."""
        return {int(path.stem[5:]) for path in self._root.glob("best-*.safetensors")}

    def save(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        """The file or none of it; one that was there goes."""
        self._root.mkdir(parents=True, exist_ok=True)
        staged = self._root / "best.partial"
        tensors_to_file(staged, tensors)
        os.replace(staged, self._path(step))

    def load(self, step: int) -> dict[str, Tensor]:
        """Raises ``CheckpointError`` where there is none."""
        return tensors_from_file(self._path(step))

    def keep_only(self, steps: Iterable[int]) -> None:
        """Those of other steps go."""
        for step in self.steps().difference(steps):
            self._path(step).unlink(missing_ok=True)
