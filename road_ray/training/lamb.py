"""LAMB: Adam whose step in every matrix has a length in proportion to the matrix itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from road_ray.training.fsdp import whole
from road_ray.training.optimizer import ElectraAdamW


class Lamb(ElectraAdamW):
    """For batches of thousands of rows, where one rate for all layers is too much for some.

    Biases and LayerNorms, which do not decay, are updated as by Adam. Source: You et al. 2020,
    algorithm 2, the norm taken as it is.
    """

    def set_rate(self, multiplier: float) -> None:
        """Set the rate of every group to ``multiplier`` times its peak for the coming step."""
        self.multiplier = multiplier
        for group in self.param_groups:
            group["lr"] = group["peak_lr"] * multiplier
            group["eps"] = group["peak_eps"]
            group["weight_decay"] = group["peak_weight_decay"]

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            touched = [p for p in group["params"] if p.grad is not None]
            group["updates"] += bool(touched)
            for parameter in touched:
                direction = self._direction(parameter, group)
                ratio = _trust(parameter, direction) if group["weight_decay"] else 1.0
                parameter.sub_(direction * (group["lr"] * ratio))
        return None

    def _direction(self, parameter: Tensor, group: dict[str, Any]) -> Tensor:
        """Adam's step of length one, with the decay in it."""
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


def _trust(parameter: Tensor, direction: Tensor) -> Tensor:
    """Length of the weights over length of the step; 1 where one of them is 0. No wait for a
    device.
    """
    weights, step = whole(parameter.norm()), whole(direction.norm())
    usable = (weights > 0) & (step > 0)
    return torch.where(usable, weights / step, torch.ones_like(weights))
