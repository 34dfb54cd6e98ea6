"""Gradient of a step: averaged over its passes and all workers, and checked before the update."""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from road_ray.data.batching import Batch
from road_ray.errors import DivergedError
from road_ray.objectives.base import Losses, Objective
from road_ray.training.checkpoint_state import AsyncSaver
from road_ray.training.optimizer import ElectraAdamW
from road_ray.training.run_context import Training
from road_ray.training.worker import Worker

_WINDOW_STEPS = 50  # long enough to hold a hard batch of every data set of a mixture
_LEAST_STEPS = 10  # needed to know the usual level
_FACTOR = 2.0  # times the largest loss of the window; our choice
_MOST_WARNINGS = 3  # the loss of rows that a model knows by heart jumps often, and harmlessly


@dataclass
class StepResult:
    """Sums and counts of one step on this worker by name, without gradient, and its row numbers.

    ``loss`` is the mean over all workers, so it is finite on all of them or on none.
    """

    sums: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    datasets: list[str] = field(default_factory=list)
    rows: list[Tensor] = field(default_factory=list)  # on the device: to read them would wait
    loss: float | Tensor = 0.0


def backward(
    wrapped: nn.Module,
    objective: Objective,
    passes: Sequence[Batch],
    worker: Worker,
    *,
    seed: int,
    step: int,
    autocast: torch.dtype | None,
    one_batch: bool = False,
) -> StepResult:
    """Compute the gradient of a step of several passes, prepared and on the device, each term
    divided by its count over all workers: the mean of per-worker means would be wrong as soon as
    counts differ.

    With ``one_batch`` the passes are the pieces of one larger batch: a term's sums over all of them
    are divided by the sum of their counts, so the gradient is that of the larger batch. Otherwise
    it is the mean over the passes (ROaD part 1, Algorithm 1). Dropout is seeded by (seed, step,
    pass, rank), so no generator state has to be saved.
    """
    result = StepResult()
    counts = _counted([objective.counts(batch) for batch in passes], worker, one_batch=one_batch)
    for number, (batch, count) in enumerate(zip(passes, counts, strict=True)):
        pass_seed = np.random.SeedSequence((seed, 3, step, number, worker.rank))
        torch.manual_seed(int(pass_seed.generate_state(1)[0]))
        # One all-reduce a step is enough. FSDP has no no_sync: it reduces every pass, or each
        # worker would hold the whole gradient.
        skip_reduce = number + 1 < len(passes)
        with getattr(wrapped, "no_sync", nullcontext)() if skip_reduce else nullcontext():
            with torch.autocast(worker.device.type, dtype=autocast, enabled=autocast is not None):
                losses: Losses = wrapped(batch)
            terms = losses.terms
            totals = torch.stack([term.total.float() for term in terms.values()])
            # Filled on the device, because a copy from the host would wait for it.
            weights = torch.stack([torch.full_like(totals[0], t.weight) for t in terms.values()])
            shares = weights / torch.stack([count[name] for name in terms]).clamp(min=1)
            if not one_batch:
                shares = shares / len(passes)
            # DDP averages gradients over workers, but the loss is a sum over workers.
            (totals @ shares * worker.size).backward()  # type: ignore[no-untyped-call]
        result.loss = result.loss + totals.detach() @ shares
        sums = {name: (term.total.detach(), term.count) for name, term in terms.items()}
        for name, (total, number_of) in (sums | losses.metrics).items():
            if before := result.sums.get(f"train/{name}"):
                total, number_of = total + before[0], number_of + before[1]
            result.sums[f"train/{name}"] = total, number_of
        result.datasets.append(str(batch.get("dataset", "")))
        if "rows" in batch:
            result.rows.append(batch["rows"])
    if objective.sparse:
        worker.average_gradients(objective)
    result.loss = worker.total(torch.as_tensor(result.loss))
    return result


def _counted(
    counts: Sequence[Mapping[str, Tensor]], worker: Worker, *, one_batch: bool
) -> list[dict[str, Tensor]]:
    """Return the counts of each pass over all workers; with ``one_batch`` those of all passes
    together, for each of them.
    """
    whole = worker.total(torch.stack([n.float() for count in counts for n in count.values()]))
    values = iter(whole.unbind())
    summed = [{name: next(values) for name in count} for count in counts]
    if not one_batch:
        return summed
    together: dict[str, Tensor] = {}
    for count in summed:
        for name, value in count.items():
            together[name] = together.get(name, 0) + value
    return [together] * len(summed)


class LossGuard:
    """Guard that makes the updates of finite losses only, the same on all workers.

    ``deferred``, on a GPU with an optimizer that can skip updates there: losses are read in
    ``check`` only. Until then the device skips the update of a non-finite loss and all later ones,
    so that the error leaves the same weights.
    """

    def __init__(
        self,
        training: Training,
        saver: AsyncSaver,
        optimizer: ElectraAdamW,
        state: Mapping[str, Any],
    ) -> None:
        self._training, self._saver, self._optimizer = training, saver, optimizer
        skips = type(optimizer) is ElectraAdamW and not training.config.fsdp
        self.deferred = training.worker.device.type == "cuda" and skips
        self._unread: list[tuple[int, StepResult, Tensor]] = []
        self._blocked: Tensor | None = None
        self._num_spikes = 0
        # Part of checkpoints, so that a resumed run makes the same decisions; older ones lack them.
        self.recent = deque[float](state.get("losses", ()), maxlen=_WINDOW_STEPS)

    def update(self, step: int, result: StepResult, norm: Tensor) -> None:
        """Make the update of ``step``. Raises ``DivergedError`` for a non-finite loss or gradient
        norm; if deferred, ``check`` raises it.
        """
        self._unread.append((step, result, norm))
        if self.deferred:
            bad = ~torch.isfinite(norm + result.loss)
            self._blocked = bad if self._blocked is None else self._blocked | bad
            self._optimizer.found_inf = self._blocked.float()  # PyTorch's fused kernels read it
        else:
            self.check()
        self._optimizer.step()

    def check(self) -> None:
        """Check the losses of the steps since the last call; waits for the device."""
        unread, self._unread = self._unread, []
        for step, result, norm in unread:
            loss, largest = float(result.loss), max(self.recent, default=0.0)
            if not torch.isfinite(norm + result.loss):
                raise self._diverged(step, result, norm)
            if not self.is_spike(loss):
                continue
            self._num_spikes += 1
            rows = {"datasets": result.datasets, "rows": _rows_of(result)}
            text = f"step {step}: the loss jumped to {loss:.4g}; the largest of the steps before "
            text += f"was {largest:.4g}\n  data: {', '.join(result.datasets)}; "
            text += "the rows of this and of further jumps are in events.jsonl"
            told = text if self._num_spikes <= _MOST_WARNINGS else ""
            figures = {"step": step, "loss": loss, "largest_before": largest}
            self._training.journal.event("loss_spike", told, warn=True, **figures, **rows)

    def _diverged(self, step: int, result: StepResult, norm: Tensor) -> DivergedError:
        self._saver.finish()
        kept = self._training.checkpoints.newest() or "no checkpoint yet"
        bad = [name for name, (total, _) in result.sums.items() if not total.isfinite().all()]
        where = ", ".join(bad) or "no loss term of this worker"
        return DivergedError(
            f"step {step}: gradient norm {float(norm)}, loss {float(result.loss)}\n"
            f"  not finite: {where}; data: {', '.join(result.datasets)}; "
            f"rows on this worker: {_rows_of(result)}\n"
            "  fix: lower optimizer.peak_lr, lengthen the warm-up, or inspect these rows\n"
            f"  kept: {kept}; the update was not made"
        )

    def is_spike(self, loss: float) -> bool:
        """Add a loss; return True if it is more than twice the largest of the last 50, of which
        there must be at least ten, and one above 0.
        """
        limit = _FACTOR * max(self.recent, default=loss)
        spike = len(self.recent) >= _LEAST_STEPS and loss > limit > 0
        # A spike counts as the limit: the next one is seen too, a new level soon is none.
        self.recent.append(limit if spike else loss)
        return spike


def _rows_of(result: StepResult) -> list[int]:
    """Return the first eight row numbers of the step on this worker."""
    return [row for part in result.rows for row in part.tolist()][:8]
