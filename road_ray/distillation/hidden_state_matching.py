"""Distillation from one teacher's hidden states and attention maps: the teacher, the matched layers
and the error between student and teacher.

The teacher runs in the student's process. A window of 384 tokens has 2 x 384 logits but
24 x 384 x 1024 numbers in the states of a large model, so they are neither sent between processes
nor stored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import AutoModel

from road_ray.data.batching import INPUTS, Batch, encoder_inputs
from road_ray.data.model_files import locate_model
from road_ray.data.tokenizer import gives_segments
from road_ray.distillation.teacher_directory import teacher_tokenizer
from road_ray.errors import ConfigError
from road_ray.models.architectures import input_names
from road_ray.models.attention import use_cpu_kernels
from road_ray.models.load_weights import load_stored

Layers = Literal["uniform", "last"] | tuple[tuple[int, int], ...]


class HiddenStatesTeacher:
    """Frozen encoder of a model directory, of any architecture with the student's tokenizer.

    It is not a module, so that the student's checkpoints and optimizer do not include it.
    """

    def __init__(self, directory: str | Path, *, attentions: bool = False) -> None:
        self.directory = locate_model(directory)
        # A fine-tuned model often lacks the pooler, which the states do not depend on.
        self._model: Any = load_stored(AutoModel, self.directory)[0].eval().requires_grad_(False)
        use_cpu_kernels(self._model)
        if attentions:
            self._model.set_attn_implementation("eager")  # others return no maps
        self._outputs = {"output_hidden_states": True, "output_attentions": attentions}
        tokenizer, self._names = teacher_tokenizer(self.directory), input_names(self._model)
        if tokenizer is not None and not gives_segments(tokenizer):
            self._names = INPUTS[:2]  # no segments, as its own rows have none
        self.num_layers = int(self._model.config.num_hidden_layers)
        self.width = int(self._model.config.hidden_size)

    def __deepcopy__(self, copies: object) -> HiddenStatesTeacher:
        """Return itself: it is frozen, so copies of a student share it."""
        return self

    def __call__(self, batch: Batch) -> Any:
        """Return the output of ``transformers`` for the batch, on its device, without gradient:
        ``hidden_states[n]`` ``[B, L, D]`` of layer n (0: the embeddings) and ``attentions[n - 1]``
        ``[B, H, L, L]``.
        """
        device = batch["input_ids"].device
        if self._model.device != device:
            self._model.to(device)
        inputs = encoder_inputs(batch, self._names)
        with torch.no_grad():
            return self._model(**inputs, **self._outputs)


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


class StateMatching(nn.Module):
    """``hidden_weight`` * error of the hidden states + ``attention_weight`` * error of the
    attention maps, both mean over real tokens and matched layers.

    Each matched layer of the student has a projection to the teacher's width, which is trained too.
    ``student`` is the student's encoder; where attention maps are matched it is set to the eager
    attention, because others return no maps. Source: ROaD part 2, section 4.3 (hidden states); the
    attention term from ROaD's note on decoupled transformers, both at weight 0.5 there.
    """

    def __init__(
        self,
        student: Any,
        teacher: HiddenStatesTeacher,
        *,
        layers: Layers = "uniform",
        hidden_weight: float = 0.0,
        attention_weight: float = 0.0,
    ) -> None:
        super().__init__()
        self.teacher = teacher
        weights = {"hidden": hidden_weight, "attention": attention_weight}
        self.weights = {kind: weight for kind, weight in weights.items() if weight}
        self.pairs = layer_map(int(student.config.num_hidden_layers), teacher.num_layers, layers)
        self.projections = nn.ModuleDict()
        for layer, _ in self.pairs if hidden_weight else ():
            linear = nn.Linear(int(student.config.hidden_size), teacher.width)
            if linear.in_features == linear.out_features:  # begin with the identity
                nn.init.eye_(linear.weight)
                nn.init.zeros_(linear.bias)
            self.projections[str(layer)] = linear
        if attention_weight:
            student.set_attn_implementation("eager")

    @property
    def outputs(self) -> dict[str, bool]:
        """Arguments of the student's forward pass, for the outputs that are matched."""
        return {"output_hidden_states": True, "output_attentions": "attention" in self.weights}

    def forward(self, output: Any, batch: Batch) -> dict[str, tuple[Tensor, float]]:
        """Return, by name (``hidden``, ``attention``), the sum of an error over real tokens and
        matched layers, and its weight per token. ``output`` is that of the student's encoder.
        """
        teacher, mask = self.teacher(batch), batch.get("attention_mask")
        mask = torch.ones_like(batch["input_ids"]) if mask is None else mask
        real = mask.flatten(0, -2).bool()
        totals: dict[str, list[Tensor]] = {}
        for s, t in self.pairs:
            if "hidden" in self.weights:
                student = self.projections[str(s)](output.hidden_states[s])
                error = hidden_error(student, teacher.hidden_states[t], real)
                totals.setdefault("hidden", []).append(error)
            if "attention" in self.weights:
                error = attention_error(output.attentions[s - 1], teacher.attentions[t - 1], real)
                totals.setdefault("attention", []).append(error)
        return {
            name: (torch.as_tensor(sum(errors)), self.weights[name] / len(self.pairs))
            for name, errors in totals.items()
        }


def hidden_error(student: Tensor, teacher: Tensor, real: Tensor) -> Tensor:
    """Return the squared error, mean over the width, summed over ``real`` tokens:
    ``[B, L, D] twice, [B, L] -> []``.
    """
    errors = (student.float() - teacher.float()).square().mean(-1)
    return torch.where(real, errors, 0.0).sum()


def attention_error(student: Tensor, teacher: Tensor, real: Tensor) -> Tensor:
    """Return the squared distance of two attention distributions, mean over heads, summed over
    ``real`` tokens: ``[B, H, L, L] twice, [B, L] -> []``.

    Summed over keys, because a mean would vanish in long rows (our choice). Where the numbers of
    heads differ, the means over heads are compared. The student's map includes its dropout.
    """
    student, teacher = student.float(), teacher.float()
    if student.shape[1] != teacher.shape[1]:
        student, teacher = student.mean(1, keepdim=True), teacher.mean(1, keepdim=True)
    keys = real[:, None, None, :]
    gap = torch.where(keys, student - teacher, 0.0)
    return torch.where(real, gap.square().sum(-1).mean(1), 0.0).sum()
