"""Hugging Face's ``Trainer`` with distillation: training batches are annotated by an ensemble.

Needs ``accelerate`` (``pip install road-ray[trainer]``), as the ``Trainer`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from safetensors.torch import load_file, save_file
from torch import nn
from transformers import Trainer, TrainerCallback

from road_ray.data.batching import Batch
from road_ray.distillation.custom_loop import model_inputs, student_loss
from road_ray.distillation.ensemble.annotate import annotate
from road_ray.distillation.ensemble.protocol import Ensemble
from road_ray.distillation.hidden_state_matching import HiddenStatesTeacher, StateMatching
from road_ray.distillation.schedule import Shape
from road_ray.distillation.schedule import schedule as schedule_of
from road_ray.distillation.teacher_directory import fingerprint_tokenizer, reads_other_tokens
from road_ray.distillation.weighting import Rule, default_rule, options_of, resolve
from road_ray.errors import ConfigError

PROJECTIONS = "matching.safetensors"  # in a checkpoint, beside the model


class DistillationTrainer(Trainer):  # type: ignore[misc]  # transformers has no types
    """``Trainer(..., ensemble=..., temperature=2, kd_weight=0.5)``; evaluation uses labels alone.

    ``weighting`` names the weighting rule, by default ``correctness``, for one teacher ``mean``.
    ``rule`` are its options, such as ``{"wrong": 0.75}``; a ``temperature`` among them is that of
    the loss by default.
    ``schedule`` is the course of ``kd_weight`` over the training: ``constant``, ``linear`` or
    points. ``average_loss`` averages the losses to each teacher instead of their logits.
    ``matching`` are options of distillation from hidden states, such as ``{"teacher": DIRECTORY,
    "hidden_weight": 0.5}``, as those of ``StateMatching``; its projections are trained and kept in
    the checkpoints, beside the model. Requests to the ensemble run ``lookahead`` batches ahead. The
    caller closes the ensemble.
    """

    loss_is_scaled_for_ga = False  # a mean over the batch: the Trainer divides by accumulation

    def __init__(
        self,
        *arguments: Any,
        ensemble: Ensemble,
        weighting: str | None = None,
        rule: Mapping[str, Any] | None = None,
        temperature: float = 2.0,
        kd_weight: float = 0.5,
        schedule: Shape = "constant",
        average_loss: bool = False,
        matching: Mapping[str, Any] | None = None,
        lookahead: int = 2,
        **options: Any,
    ) -> None:
        self.ensemble = ensemble
        name = weighting or default_rule(ensemble.size)
        shared = {"temperature": temperature} if "temperature" in options_of(name) else {}
        self.weigh = resolve(name, **{**shared, **(rule or {})})
        self.temperature, self.lookahead = temperature, lookahead
        self.kd_weight, self.average_loss = schedule_of(schedule, kd_weight), average_loss
        super().__init__(*arguments, **options)
        self.matching = None if matching is None else self._matching(**matching)
        if self.matching is not None:
            self.add_callback(_ZeroGradients(self.matching))

    def create_optimizer(self, *arguments: Any, **options: Any) -> Any:
        """Return the optimizer of the ``Trainer``, which trains the projections too."""
        new = self.optimizer is None
        optimizer = super().create_optimizer(*arguments, **options)
        projections = [] if self.matching is None else list(self.matching.parameters())
        if new and projections:
            optimizer.add_param_group({"params": projections, "weight_decay": 0.0})
        return optimizer

    def get_train_dataloader(self) -> Any:
        """Return the loader of the ``Trainer``, with annotated batches."""
        loader = super().get_train_dataloader()
        if hasattr(loader, "device"):
            # Batches stay on the host until they are annotated, or teachers would wait for the
            # student's step on its device; the Trainer moves them then.
            loader.device = None
        annotated = partial(annotate, each=self.average_loss)
        return _AnnotatedLoader(loader, annotated, self.ensemble, self.weigh, self.lookahead)

    def compute_loss(
        self,
        model: Any,
        inputs: Mapping[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Return the student's loss; for a batch of evaluation the model's own."""
        if model.training and "soft_logits" not in inputs:
            # In a resumed epoch the Trainer's own loader wraps the annotated one.
            (inputs,) = annotate([inputs], self.ensemble, self.weigh, 0, each=self.average_loss)
        matching = self.matching if "soft_logits" in inputs else None
        outputs = model(**model_inputs(inputs), **({} if matching is None else matching.outputs))
        loss = outputs.loss
        if "soft_logits" in inputs:
            kd_weight = self.kd_weight(self.state.global_step / max(self.state.max_steps, 1))
            loss = student_loss(outputs, inputs, temperature=self.temperature, kd_weight=kd_weight)
        if matching is not None:
            mask = inputs.get("attention_mask")
            count = inputs["input_ids"].numel() if mask is None else mask.sum().clamp(min=1)
            errors = matching(outputs, cast("Batch", inputs)).values()
            loss = loss + sum(weight * total for total, weight in errors) / count
        return (loss, outputs) if return_outputs else loss

    def _matching(self, teacher: str, **options: Any) -> StateMatching:
        tokenizer = self.processing_class
        is_tokenizer = hasattr(tokenizer, "get_vocab")
        if is_tokenizer and reads_other_tokens(teacher, fingerprint_tokenizer(tokenizer)):
            raise ConfigError(
                f"matching: {teacher} has another tokenizer than the student, and hidden states of "
                "other tokens cannot be carried over\n"
                "  fix: match a teacher with the student's tokenizer, or leave matching out"
            )
        attentions = options.get("attention_weight", 0) > 0
        states = HiddenStatesTeacher(teacher, attentions=attentions)
        encoder = getattr(self.model, "base_model", self.model)
        return StateMatching(encoder, states, **options).to(self.args.device)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        super()._save(output_dir, state_dict)
        if self.matching is not None:
            place = Path(output_dir or self.args.output_dir) / PROJECTIONS
            save_file(self.matching.state_dict(), place)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: object = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        if self.matching is not None:
            self.matching.load_state_dict(load_file(Path(resume_from_checkpoint) / PROJECTIONS))


class _ZeroGradients(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Callback that clears a module's gradients after each step; the ``Trainer`` clears only the
    model's.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def on_step_end(self, *_: object, **__: object) -> None:
        self._module.zero_grad()


class _AnnotatedLoader:
    """Data loader with annotated batches; all other attributes are those of the loader."""

    def __init__(
        self, loader: Any, annotated: Any, ensemble: Ensemble, weigh: Rule, lookahead: int
    ) -> None:
        self._loader, self._annotated = loader, annotated
        self._arguments = (ensemble, weigh, lookahead)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        batches: Iterator[Mapping[str, Any]] = self._annotated(self._loader, *self._arguments)
        return batches

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
