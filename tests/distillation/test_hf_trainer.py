"""Hugging Face's Trainer with distillation."""

import pytest
import torch
from torch.nn import functional
from transformers import (
    AutoModelForSequenceClassification,
    ElectraForQuestionAnswering,
    TrainingArguments,
)

import road_ray as rr
from road_ray.data.catalog import task
from road_ray.data.task_and_dataset import Classify, Task
from road_ray.distillation.annotate import annotate
from road_ray.distillation.ensemble import LocalEnsemble
from road_ray.distributed.public_ensemble import Ensemble
from tests.published import TEXTS, publish, tokenizer_of
from tests.tiny_teacher import make_teacher

pytest.importorskip("accelerate")


def rows(count: int = 8, **gold) -> list[dict]:
    """Rows of eight tokens; ``gold`` gives the number of values that go round."""
    ids = torch.randint(5, 24, (count, 8), generator=torch.Generator().manual_seed(0))
    gold = gold or {"start_positions": 8, "end_positions": 8}
    return [
        {"input_ids": row, "attention_mask": torch.ones_like(row)}
        | {name: torch.tensor(number % values) for name, values in gold.items()}
        for number, row in enumerate(ids)
    ]


def batch_of(examples: list[dict]) -> dict:
    return {name: torch.stack([row[name] for row in examples]) for name in examples[0]}


def arguments(directory, **options):
    """Those of a trainer that writes and tells nothing."""
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True}
    return TrainingArguments(output_dir=str(directory / "out"), **(quiet | options))


@pytest.fixture
def trainer(tmp_path):
    """``trainer(**options)``: one on spans; the student has the shape of its two teachers."""
    directories = [make_teacher(tmp_path / str(seed), seed, kind="mrc") for seed in (1, 2)]

    def make(accumulate: int = 1, size: int = 8, more: dict | None = None, **options):
        student = ElectraForQuestionAnswering.from_pretrained(
            directories[0], hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        plain = {
            "max_grad_norm": 0.0,
            "learning_rate": 1e-2,
            "optim": "sgd",
            "lr_scheduler_type": "constant",
        }
        sizes = {"per_device_train_batch_size": size, "gradient_accumulation_steps": accumulate}
        return rr.DistillationTrainer(
            model=student,
            args=arguments(tmp_path, **{"max_steps": 1, **plain, **sizes, **(more or {})}),
            train_dataset=rows(),
            eval_dataset=rows(),
            ensemble=LocalEnsemble(directories, task("mrc")),
            **options,
        )

    return make


def weights(trainer) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in trainer.model.parameters()])


@pytest.mark.slow
def test_accumulated_batches_are_one_large_one(trainer):
    whole, parts = trainer(), trainer(accumulate=4, size=2)
    whole.train()
    parts.train()
    torch.testing.assert_close(weights(whole), weights(parts), rtol=1e-4, atol=1e-5)


def test_evaluation_is_on_gold(trainer):
    first = trainer(kd_weight=1.0)
    figures, batch = first.evaluate(), batch_of(rows())
    first.model.eval()
    with torch.no_grad():
        assert figures["eval_loss"] == pytest.approx(first.model(**batch).loss.item(), rel=1e-4)


@pytest.mark.slow
def test_a_run_resumed_in_its_second_epoch_is_the_straight_run(trainer, tmp_path):
    every = {"max_steps": 7, "save_strategy": "steps", "save_steps": 6}
    straight, resumed = (trainer(size=2, more=every) for _ in range(2))  # four steps an epoch
    straight.train()
    resumed.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-6"))
    assert torch.equal(weights(straight), weights(resumed))


def test_the_schedule_follows_the_steps_of_the_trainer(trainer):
    ours = trainer(schedule="linear")
    ours.state.global_step, ours.state.max_steps = 3, 4
    (annotated,) = annotate([batch_of(rows())], ours.ensemble, ours.weigh)
    loss = ours.compute_loss(ours.model.train(), annotated)
    plain = trainer(kd_weight=0.25)
    plain.model.load_state_dict(ours.model.state_dict())
    assert loss.item() == pytest.approx(plain.compute_loss(plain.model.train(), annotated).item())


def test_a_task_of_ones_own_with_mapped_labels_is_learnt(tmp_path):
    directory = make_teacher(tmp_path / "teacher", 1, labels=("LABEL_0", "LABEL_1", "LABEL_2"))
    mapped = {"LABEL_0": "sport", "LABEL_1": "politics", "LABEL_2": "art"}
    own = Task("topic", Classify(("art", "politics", "sport")))
    examples = rows(16, labels=3)
    student = AutoModelForSequenceClassification.from_pretrained(directory)
    with Ensemble([directory], task=own, host="process", label_map=mapped) as ensemble:
        first = rr.DistillationTrainer(
            model=student,
            args=arguments(tmp_path, max_steps=2),
            train_dataset=examples,
            ensemble=ensemble,
            schedule=[(0.0, 1.0), (1.0, 0.0)],
            average_loss=True,
        )
        batch = batch_of(examples)
        (annotated,) = annotate([batch], ensemble, first.weigh, each=True)
        with torch.no_grad():
            plain = student.eval()(batch["input_ids"], batch["attention_mask"]).logits
        torch.testing.assert_close(annotated["soft_logits"], plain[:, [2, 1, 0]])
        assert first.train().training_loss > 0
        smoothed = rr.DistillationTrainer(
            model=student,
            args=arguments(tmp_path, label_smoothing_factor=0.3),
            ensemble=ensemble,
            kd_weight=0.0,
        )
        loss = smoothed.compute_loss(student.eval(), annotated)
        logits = student(batch["input_ids"], batch["attention_mask"]).logits
        torch.testing.assert_close(
            loss, functional.cross_entropy(logits, batch["labels"], label_smoothing=0.3)
        )


@pytest.mark.slow
def test_the_trainer_distils_from_texts_of_a_collator(tmp_path):
    head = {"head": "ForSequenceClassification", "labels": ("negative", "positive")}
    tokenizer = tokenizer_of("electra", TEXTS[:1], 120)
    directory = publish(tmp_path / "student", "electra", tokenizer=tokenizer, **head)
    teachers = [publish(tmp_path / family, family, **head) for family in ("bert", "roberta")]

    def collate(rows):
        texts = [row["text"] for row in rows]
        batch = dict(tokenizer(texts, padding=True, return_tensors="pt"))
        return batch | {"texts": texts, "labels": torch.tensor([row["label"] for row in rows])}

    learnt = []
    data = [{"text": text, "label": number % 2} for number, text in enumerate(TEXTS)] * 2
    sizes = {"max_steps": 2, "per_device_train_batch_size": 3, "remove_unused_columns": False}
    with rr.Ensemble(teachers, task="sst2", host="process", student_tokenizer=tokenizer) as opened:
        for weight in (0.0, 1.0):
            trainer = rr.DistillationTrainer(
                model=AutoModelForSequenceClassification.from_pretrained(directory),
                args=arguments(tmp_path, **sizes),
                train_dataset=data,
                eval_dataset=data,
                data_collator=collate,
                ensemble=opened,
                kd_weight=weight,
            )
            trainer.train()
            assert trainer.evaluate()["eval_loss"] > 0
            learnt.append(weights(trainer))
    assert not torch.allclose(*learnt, atol=1e-6)
