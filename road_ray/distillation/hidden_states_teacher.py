"""Teacher that returns hidden states and attention maps, for intermediate distillation.

It runs in the student's process. A window of 384 tokens has 2 x 384 logits but 24 x 384 x 1024
numbers in the states of a large model, so they are neither sent between processes nor stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from road_ray.data.batching import Batch, encoder_inputs
from road_ray.data.model_files import locate_model
from road_ray.distillation.teacher_identity import refuse_random
from road_ray.errors import ConfigError
from road_ray.models.architectures import input_names
from road_ray.models.performance.cpu_kernels import use_cpu_kernels
from road_ray.models.weights import load_stored

Layers = Literal["uniform", "last"] | tuple[tuple[int, int], ...]


class HiddenStates(NamedTuple):
    """Outputs of each layer, counted from 1: ``hidden[n]`` ``[B, L, D]``, ``attentions[n]``
    ``[B, H, L, L]``.
    """

    hidden: Mapping[int, Tensor]
    attentions: Mapping[int, Tensor]


def hidden_states_of(output: Any) -> HiddenStates:
    """Return the states in the output of a ``transformers`` encoder, where it returned them."""
    hidden, attentions = output.hidden_states or (), output.attentions or ()
    return HiddenStates(
        {n: state for n, state in enumerate(hidden) if n},  # 0 are the embeddings
        dict(enumerate(attentions, 1)),
    )


class HiddenStatesTeacher:
    """Frozen encoder of a model directory, of any architecture with the student's tokenizer.

    It is not a module, so that the student's checkpoints and optimizer do not include it.
    """

    def __init__(self, directory: str | Path, *, attentions: bool = False) -> None:
        self.directory = locate_model(directory)
        self._model = _load(self.directory).eval().requires_grad_(False)
        use_cpu_kernels(self._model)
        if attentions:
            self._model.set_attn_implementation("eager")  # others return no maps
        self._outputs = {"output_hidden_states": True, "output_attentions": attentions}
        self._names = input_names(self._model)
        self.num_layers = int(self._model.config.num_hidden_layers)
        self.width = int(self._model.config.hidden_size)

    def __call__(self, batch: Batch) -> HiddenStates:
        """Return its states for the batch, on the batch's device and without gradient."""
        device = batch["input_ids"].device
        if self._model.device != device:
            self._model.to(device)
        inputs = encoder_inputs(batch, self._names)
        with torch.no_grad():
            return hidden_states_of(self._model(**inputs, **self._outputs))


def layer_map(student: int, teacher: int, layers: Layers) -> tuple[tuple[int, int], ...]:
    """Return pairs (student's layer, teacher's layer), counted from 1, for these numbers of layers.

    ``uniform`` spaces the teacher's layers evenly and ends with the last of both. Source: ROaD
    part 2 (24 to 12, 22 to 11); rounding where they do not divide is our choice. Raises
    ``ConfigError`` for a layer that does not exist.
    """
    if layers == "uniform":
        return tuple(
            (n, max(1, (2 * n * teacher + student) // (2 * student))) for n in range(1, student + 1)
        )
    pairs = ((student, teacher),) if layers == "last" else layers
    if not pairs or any(not (1 <= s <= student and 1 <= t <= teacher) for s, t in pairs):
        raise ConfigError(
            f"distillation.matching.layers = {[list(pair) for pair in pairs]}\n"
            f"  allowed: uniform, last, or pairs [1 to {student}, 1 to {teacher}] of the student's "
            "and the teacher's layers"
        )
    return tuple(pairs)


def _load(directory: Path) -> Any:
    from transformers import AutoModel

    model, missing = load_stored(AutoModel, directory)
    # A fine-tuned model often lacks the pooler, which the states do not depend on.
    refuse_random(directory, [name for name in missing if not name.startswith("pooler.")])
    return model
