"""How the networks of an objective run: recomputed to save memory, compiled to save time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel


def configure_networks(objective: nn.Module, recomputed: bool, compiled: bool) -> None:
    """Either, both or, as it is by default, neither."""
    if recomputed:
        recompute(objective)
    if compiled:
        compile_encoders(objective)


def recompute(objective: nn.Module) -> None:
    """Activation checkpointing: layers keep their inputs only, and run again in the backward pass
    with the same dropout. The same gradients, about a third more time. Source: Chen et al. 2016.
    """
    for encoder in encoders_of(objective):
        encoder.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": False, "preserve_rng_state": True}
        )


def compile_encoders(objective: nn.Module, backend: Any = "inductor") -> None:
    """``torch.compile`` of every encoder, for batches of any shape. What cannot be compiled runs as
    it did before, with a warning of PyTorch's; names in checkpoints stay as they are.
    """
    torch._dynamo.config.suppress_errors = True
    for encoder in encoders_of(objective):
        encoder.compile(backend=backend, dynamic=True)


def encoders_of(objective: nn.Module) -> Iterator[PreTrainedModel]:
    """The encoder of every network of an objective, a shared one once."""
    for module in objective.modules():
        if isinstance(module, PreTrainedModel) and module.base_model is module:
            yield module
