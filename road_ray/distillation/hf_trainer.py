"""Hugging Face's ``Trainer`` with distillation: training batches are annotated by an ensemble.

Needs ``accelerate`` (``pip install road-ray[trainer]``), as the ``Trainer`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from transformers import Trainer

from road_ray.distillation.annotate import annotate, model_inputs, student_loss
from road_ray.distillation.ensemble import Ensemble
from road_ray.distillation.schedule import Shape
from road_ray.distillation.schedule import schedule as schedule_of
from road_ray.distillation.weighting import default_rule, options_of, resolve


class DistillationTrainer(Trainer):  # type: ignore[misc]  # transformers has no types
    """``Trainer(..., ensemble=..., temperature=2, kd_weight=0.5)``; evaluation uses labels alone.

    ``weighting`` names the weighting rule, by default ``correctness``, for one teacher ``mean``.
    ``rule`` are its options, such as ``{"wrong": 0.75}``; a ``temperature`` among them is that of
    the loss by default.
    ``schedule`` is the course of ``kd_weight`` over the training: ``constant``, ``linear`` or
    points. ``average_loss`` averages the losses to each teacher instead of their logits.
    Requests to the ensemble run ``lookahead`` batches ahead. The caller closes the ensemble.

    >>> import torch
    >>> from transformers import AutoModelForSequenceClassification, TrainingArguments
    >>> import road_ray as rr
    >>> student = AutoModelForSequenceClassification.from_pretrained("runs/finetune/hf")
    >>> rows = [{"input_ids": torch.tensor([2, 7, 3]), "labels": 1}] * 4
    >>> options = TrainingArguments("runs/trainer", max_steps=1, disable_tqdm=True, report_to=[])
    >>> with rr.Ensemble(["runs/student"], host="process") as ensemble:
    ...     trainer = rr.DistillationTrainer(
    ...         model=student, args=options, train_dataset=rows, ensemble=ensemble, temperature=2.0
    ...     )
    ...     trainer.train().global_step
    {'train_runtime': ...}
    1
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

    def get_train_dataloader(self) -> Any:
        """Return the loader of the ``Trainer``, with annotated batches."""
        loader = super().get_train_dataloader()
        if hasattr(loader, "device"):
            # Batches stay on the host until they are annotated, or teachers would wait for the
            # student's step on its device; the Trainer moves them then.
            loader.device = None
        return _AnnotatedLoader(loader, self)

    def annotated(self, batches: Iterable[Mapping[str, Any]], lookahead: int) -> Iterator[Any]:
        """Yield the batches with the teachers' answers."""
        return annotate(batches, self.ensemble, self.weigh, lookahead, each=self.average_loss)

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
            (inputs,) = self.annotated([inputs], 0)
        outputs = model(**model_inputs(inputs))
        loss = outputs.loss
        if "soft_logits" in inputs:
            kd_weight = self.kd_weight(self.state.global_step / max(self.state.max_steps, 1))
            loss = student_loss(outputs, inputs, temperature=self.temperature, kd_weight=kd_weight)
        return (loss, outputs) if return_outputs else loss


class _AnnotatedLoader:
    """Data loader with annotated batches; all other attributes are those of the loader."""

    def __init__(self, loader: Any, trainer: DistillationTrainer) -> None:
        self._loader, self._trainer = loader, trainer

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return self._trainer.annotated(self._loader, self._trainer.lookahead)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
