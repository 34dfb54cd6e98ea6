"""Hugging Face's ``Trainer`` with distillation: training batches are annotated by an ensemble.

Needs ``accelerate`` (``pip install road-ray[trainer]``), as the ``Trainer`` does.
"""

from collections.abc import Mapping
from typing import Any

from transformers import Trainer

from road_ray.distillation.annotate import annotate, model_inputs, student_loss
from road_ray.distillation.ensemble import Ensemble
from road_ray.distillation.schedule import Schedule, Shape
from road_ray.distillation.weighting import default_rule, resolve


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
        self.weigh = resolve(name, {"temperature": temperature}, **(rule or {}))
        self.temperature, self.lookahead = temperature, lookahead
        self.kd_weight, self.average_loss = Schedule(schedule, kd_weight), average_loss
        self._epoch: Any = None
        super().__init__(*arguments, **options)

    def get_train_dataloader(self) -> Any:
        """Return the loader of the ``Trainer``, whose batches stay on the host until they are
        annotated: teachers would wait for the student's step on its device.
        """
        loader = super().get_train_dataloader()
        if hasattr(loader, "device"):
            loader.device = None  # the Trainer moves each batch before its step
        return loader

    def get_batch_samples(self, epoch_iterator: Any, *sizes: Any) -> Any:
        """Return the next annotated batches of an epoch, and what the ``Trainer`` adds to them."""
        if epoch_iterator is not self._epoch:  # requests of an epoch run ahead over its steps
            self._epoch = epoch_iterator
            how = self.ensemble, self.weigh, self.lookahead
            self._annotated = annotate(epoch_iterator, *how, each=self.average_loss)
        return super().get_batch_samples(self._annotated, *sizes)

    def compute_loss(
        self,
        model: Any,
        inputs: Mapping[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Return the student's loss; for a batch of evaluation the model's own."""
        # Without the number of items, which would scale the labels' loss alone.
        loss, outputs = super().compute_loss(model, model_inputs(inputs), return_outputs=True)
        if "soft_logits" in inputs:
            outputs.loss = loss  # with label smoothing the model itself gives none
            kd_weight = self.kd_weight(self.state.global_step / max(self.state.max_steps, 1))
            loss = student_loss(outputs, inputs, temperature=self.temperature, kd_weight=kd_weight)
        return (loss, outputs) if return_outputs else loss
