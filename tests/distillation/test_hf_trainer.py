"""Hugging Face's Trainer with teachers: spans, gradient accumulation, evaluation on gold."""

from __future__ import annotations

import pytest
import torch

from road_ray.data.catalog import task
from road_ray.distillation.ensemble.base import annotate
from road_ray.distillation.ensemble.local import LocalEnsemble

pytest.importorskip("accelerate")


def rows(count: int = 8) -> list[dict]:
    torch.manual_seed(0)
    ids = torch.randint(5, 24, (count, 8))
    return [
        {
            "input_ids": row,
            "attention_mask": torch.ones_like(row),
            "start_positions": torch.tensor(number % 8),
            "end_positions": torch.tensor(number % 8),
        }
        for number, row in enumerate(ids)
    ]


@pytest.fixture
def trainer(tmp_path, teacher):
    """``trainer(**options)``: one on spans; the student has the shape of its two teachers."""
    from transformers import ElectraForQuestionAnswering, TrainingArguments

    from road_ray.distillation.hf_trainer import DistillationTrainer

    directories = [teacher(tmp_path / str(seed), seed, kind="mrc") for seed in (1, 2)]

    def make(accumulate: int = 1, size: int = 8, **options):
        student = ElectraForQuestionAnswering.from_pretrained(
            directories[0], hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        arguments = TrainingArguments(
            output_dir=str(tmp_path / "out"),
            max_steps=1,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=accumulate,
            learning_rate=1e-2,
            optim="sgd",
            max_grad_norm=0.0,
            lr_scheduler_type="constant",
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        ensemble = LocalEnsemble.load(directories, task("mrc"))
        return DistillationTrainer(
            model=student,
            args=arguments,
            train_dataset=rows(),
            eval_dataset=rows(),
            ensemble=ensemble,
            **options,
        )

    return make


def weights(trainer) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in trainer.model.parameters()])


def test_the_teachers_change_what_is_learnt(trainer):
    made = {weight: trainer(kd_weight=weight) for weight in (0.0, 1.0)}
    before = weights(made[0.0])
    for one in made.values():
        one.train()
    assert not torch.equal(weights(made[0.0]), before)
    assert not torch.allclose(weights(made[0.0]), weights(made[1.0]), atol=1e-6)


def test_accumulated_batches_are_one_large_one(trainer):
    whole, parts = trainer(), trainer(accumulate=4, size=2)
    whole.train()
    parts.train()
    torch.testing.assert_close(weights(whole), weights(parts), rtol=1e-4, atol=1e-5)


def test_evaluation_is_on_gold_and_a_foreign_loader_is_taught_late(trainer):
    one = trainer(kd_weight=1.0)
    figures = one.evaluate()
    batch = {name: torch.stack([row[name] for row in rows()]) for name in rows()[0]}
    one.model.eval()
    with torch.no_grad():
        assert figures["eval_loss"] == pytest.approx(one.model(**batch).loss.item(), rel=1e-4)
    one.model.train()
    taught = one.compute_loss(one.model, batch)
    assert taught.item() != pytest.approx(figures["eval_loss"], rel=1e-3)


def test_the_schedule_follows_the_steps_of_the_trainer(trainer):
    ours = trainer(schedule="linear")
    ours.state.global_step, ours.state.max_steps = 3, 4
    batch = {name: torch.stack([row[name] for row in rows()]) for name in rows()[0]}
    (annotated,) = _one(ours, batch)
    loss = ours.compute_loss(ours.model.train(), annotated)
    plain = trainer(kd_weight=0.25)
    plain.model.load_state_dict(ours.model.state_dict())
    assert loss.item() == pytest.approx(plain.compute_loss(plain.model.train(), annotated).item())


def _one(trainer, batch):
    return annotate([batch], trainer.ensemble, trainer.weigh, 0, each=trainer.average_loss)


def test_the_average_loss_is_the_mean_of_the_losses_to_each_teacher(trainer):
    ours = trainer(average_loss=True, weighting="mean", kd_weight=1.0)
    batch = {name: torch.stack([row[name] for row in rows()]) for name in rows()[0]}
    (annotated,) = _one(ours, batch)
    loss = ours.compute_loss(ours.model.train(), annotated)
    apart = []
    for number in range(2):
        alone = {k: v for k, v in annotated.items() if not k.startswith("teacher_")}
        alone["soft_logits"] = annotated["teacher_logits"][number]
        apart.append(ours.compute_loss(ours.model.train(), alone).item())
    assert loss.item() == pytest.approx(sum(apart) / 2, rel=1e-5)
