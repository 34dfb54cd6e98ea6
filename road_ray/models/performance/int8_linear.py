"""Linear layers with int8 products, for frozen models on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_LARGEST = 127  # of a signed byte, symmetric
_LEAST_WIDTH = 64  # smaller layers, such as the output of a head, take no time and stay exact


class Int8Linear(nn.Module):
    """Frozen linear layer: int8 weights with one scale per output, inputs rounded to int8 with one
    scale per row, products summed in int32.

    A row's result does not depend on the other rows of its batch, so a teacher answers alike
    whichever students share its forward pass.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        scale = _scale_of(weight)
        self.register_buffer("rounded", (weight / scale).round().to(torch.int8).t().contiguous())
        self.register_buffer("scale", scale.squeeze(1))
        self.bias = linear.bias
        self.rounded: Tensor
        self.scale: Tensor

    def forward(self, input: Tensor) -> Tensor:
        rows = input.flatten(0, -2).float()
        scale = _scale_of(rows)
        products = torch._int_mm((rows / scale).round_().to(torch.int8), self.rounded)
        output = products.float().mul_(self.scale).mul_(scale)
        if self.bias is not None:
            output += self.bias
        return output.view(*input.shape[:-1], -1)


def _scale_of(rows: Tensor) -> Tensor:
    """Return the value of one step of each row: ``[N, D] -> [N, 1]``."""
    return rows.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / _LARGEST


def round_to_int8(model: nn.Module) -> None:
    """Replace the large linear layers of a frozen model; everything else stays in fp32."""
    for part in list(model.modules()):
        for name, child in part.named_children():
            if type(child) is nn.Linear and min(child.weight.shape) >= _LEAST_WIDTH:
                setattr(part, name, Int8Linear(child))
