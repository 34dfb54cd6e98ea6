"""AdamW with ELECTRA's options (no bias correction, a rate for each layer), and LAMB."""

from typing import Any

import torch
from torch import Tensor, nn

from road_ray.models.architectures import parameter_depths
from road_ray.objectives.base import Objective
from road_ray.training.config import OptimizerConfig
from road_ray.training.worker import encoders_of, full_tensor


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
        return warm * min(1.0, (total_steps - step) / max(1, total_steps - warmup_steps))
    return warm * (1 - step / total_steps)


EPSILON = 1e-6  # in the denominator of the update (Clark et al. 2020, table 6)


class ElectraAdamW(torch.optim.AdamW):
    """``torch.optim.AdamW`` (fused where possible), optionally without bias correction.

    PyTorch always corrects: ``lr / c1 * m / (sqrt(v) / sqrt(c2) + eps)`` with ``c = 1 - beta **
    t``. Passing ``lr * c1 / sqrt(c2)``, ``eps / sqrt(c2)`` and the inversely scaled decay gives
    the update without correction.
    """

    found_inf: Tensor | None = None
    """1, on the device, if the next update is to be skipped; see ``LossGuard``."""
    corrects_always = True
    """The update corrects the bias whatever the configuration says."""

    def __init__(self, groups: list[dict[str, Any]], config: OptimizerConfig) -> None:
        super().__init__(groups, lr=config.peak_lr, betas=config.betas, eps=EPSILON, fused=True)
        self.bias_correction = config.bias_correction

    def set_rate(self, multiplier: float) -> float:
        """Set the rate of every group to ``multiplier`` times its peak for the coming step. Return
        that of the heads, before layer-wise decay and bias correction.
        """
        for group in self.param_groups:
            group["lr"] = group["peak_lr"] * multiplier
            group["eps"] = EPSILON
            group["weight_decay"] = group["peak_weight_decay"]
            if self.corrects_always and not self.bias_correction:
                coming = group["updates"] + 1
                beta1, beta2 = group["betas"]
                first = 1 - beta1**coming
                second = (1 - beta2**coming) ** 0.5
                group["lr"] *= first / second
                group["eps"] /= second
                group["weight_decay"] *= second / first
        return multiplier * max(float(group["peak_lr"]) for group in self.param_groups)

    def step(self, closure: object = None) -> Any:
        """Update every group that has a gradient."""
        result = super().step(closure)
        for group in self.param_groups:
            # Counted here because reading the state's count would synchronize with the device.
            group["updates"] += any(p.grad is not None for p in group["params"])
        return result


class Lamb(ElectraAdamW):
    """LAMB, for batches of thousands of rows. Source: You et al. 2020, algorithm 2, with phi the
    identity. Biases and LayerNorms are updated as by Adam.
    """

    corrects_always = False  # ``_direction`` applies the correction

    @torch.no_grad()
    def step(self, closure: object = None) -> Any:
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            touched = [p for p in group["params"] if p.grad is not None]
            group["updates"] += bool(touched)
            for parameter in touched:
                direction = self._direction(parameter, group)
                ratio: Tensor | float = 1.0
                if parameter.ndim > 1:  # trust ratio, without waiting for the device
                    weights, change = (full_tensor(t.norm()) for t in (parameter, direction))
                    is_usable = (weights > 0) & (change > 0)
                    ratio = torch.where(is_usable, weights / change, torch.ones_like(weights))
                parameter.sub_(direction * (group["lr"] * ratio))
        return None

    def _direction(self, parameter: Tensor, group: dict[str, Any]) -> Tensor:
        """Return Adam's update for a rate of 1, weight decay included."""
        gradient: Any = parameter.grad
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        beta1, beta2 = group["betas"]
        state["step"] += 1
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        first, second = 1.0, 1.0
        if self.bias_correction:
            first, second = (1 - beta ** group["updates"] for beta in (beta1, beta2))
        root = (state["exp_avg_sq"] / second).sqrt_().add_(group["eps"])
        adam: Tensor = state["exp_avg"] / first / root
        return adam.add_(parameter, alpha=group["weight_decay"])


def parameter_groups(objective: Objective, config: OptimizerConfig) -> list[dict[str, Any]]:
    """Return parameter groups by rate, weight decay and, for heads, task: a head without a pass in
    a step is not updated. Every group is one launch of the fused kernel.

    Source of the rates: Clark et al. 2020, appendix; google electra issues 51 and 64 for
    ``electra_code``.
    """
    depths: dict[int, tuple[int, int]] = {}  # depth and number of layers
    for encoder in encoders_of(objective):
        of_encoder, layers = parameter_depths(encoder)
        depths |= {parameter: (depth, layers) for parameter, depth in of_encoder.items()}
    groups: dict[tuple[float, bool, str], dict[str, Any]] = {}
    for name, parameter in objective.named_parameters():
        if not parameter.requires_grad:
            continue
        depth, layers = depths.get(id(parameter), (1, 0))  # of a head
        exponent = layers + 1 - depth + (config.layer_decay_mode == "electra_code")
        share = 1.0 if depth > layers else config.layer_decay**exponent
        decays = parameter.ndim > 1
        head = name.split("heads.")[1].split(".")[0] if "heads." in name else ""
        group = {
            "params": [],
            "peak_lr": config.peak_lr * share,
            "peak_weight_decay": config.weight_decay if decays else 0.0,
            "updates": 0,
        }
        groups.setdefault((share, decays, head), group)["params"].append(parameter)
    return list(groups.values())


def build_optimizer(objective: Objective, config: OptimizerConfig) -> ElectraAdamW:
    """Return the configured optimizer of an objective, at rate 0 until ``set_rate``."""
    kind = Lamb if config.name == "lamb" else ElectraAdamW
    return kind(parameter_groups(objective, config), config)


def clip(module: nn.Module, max_norm: float) -> torch.Tensor:
    """Scale the gradients to a joint norm of at most ``max_norm``; return the norm before."""
    return full_tensor(nn.utils.clip_grad_norm_(module.parameters(), max_norm))
