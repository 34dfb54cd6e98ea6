"""Learning-rate schedule: the share of the peak rate at each step."""

from __future__ import annotations


def rate(step: int, total_steps: int, warmup_steps: int, schedule: str) -> float:
    """Return the multiplier of the peak learning rate at 0-based ``step``.

    ``warmup_times_decay`` multiplies the two, so the rate at the end of the warm-up is below the
    peak (google electra, model/optimization.py); ``warmup_then_decay`` runs them one after the
    other.
    """
    warm = min(1.0, step / warmup_steps) if warmup_steps else 1.0
    if schedule == "constant":
        return warm
    if schedule == "warmup_then_decay":
        if step < warmup_steps:
            return warm
        return (total_steps - step) / max(1, total_steps - warmup_steps)
    return warm * (1 - step / total_steps)
