"""Activation checkpointing and ``torch.compile`` of the networks of an objective."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn
from transformers import PreTrainedModel

from road_ray.models.performance.compilation import compile_for_all_shapes


def configure_networks(objective: nn.Module, recomputed: bool, compiled: bool) -> None:
    """Apply activation checkpointing, ``torch.compile``, or both."""
    if recomputed:
        recompute(objective)
    if compiled:
        compile_encoders(objective)


def recompute(objective: nn.Module) -> None:
    """Switch on activation checkpointing: layers save only their inputs and run again, with the
    same dropout, in the backward pass. Same gradients, about a third more time. Source: Chen et al.
    2016.
    """
    for encoder in encoders_of(objective):
        encoder.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": False, "preserve_rng_state": True}
        )


def compile_encoders(objective: nn.Module, backend: object = "inductor") -> None:
    """Compile every encoder for batches of any shape; names in checkpoints do not change."""
    for encoder in encoders_of(objective):
        compile_for_all_shapes(encoder, backend)


def encoders_of(objective: nn.Module) -> Iterator[PreTrainedModel]:
    """Yield the encoder of every network of an objective, a shared one once."""
    for module in objective.modules():
        if isinstance(module, PreTrainedModel) and module.base_model is module:
            yield module
