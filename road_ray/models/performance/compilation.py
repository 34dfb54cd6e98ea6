"""``torch.compile`` of networks whose batches differ in length."""

from __future__ import annotations

import torch
from torch import nn


def compile_for_all_shapes(network: nn.Module, backend: object = "inductor") -> None:
    """Compile a network, in place, once for batches of any size and length; batches of one row
    are compiled apart. Code that cannot be compiled runs eagerly, with a warning of PyTorch; names
    of weights do not change.
    """
    network.compile(backend=backend, dynamic=True)
    # Errors are suppressed for this network alone, not for the compiled code of the user.
    compiled = network._compiled_call_impl
    network._compiled_call_impl = torch._dynamo.config.patch(suppress_errors=True)(compiled)
