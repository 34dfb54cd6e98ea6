"""Hugging Face's Trainer and the public ensemble with teachers of other tokenizers."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForSequenceClassification

import road_ray as rr
from tests.published import TEXTS, publish, tokenizer_of

LABELS = ("negative", "positive")


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    place = tmp_path_factory.mktemp("mixed")
    return [
        publish(place / family, family, "ForSequenceClassification", labels=LABELS, seed=number)
        for number, family in enumerate(("bert", "roberta", "deberta-v2"))
    ]


@pytest.fixture
def ensemble(directories):
    student = tokenizer_of("electra", TEXTS[:1], 120)
    with rr.Ensemble(directories, task="sst2", host="process", student_tokenizer=student) as opened:
        yield opened, student


@pytest.mark.slow
def test_the_trainer_distils_from_texts_of_a_collator(ensemble, tmp_path):
    pytest.importorskip("accelerate")
    from transformers import TrainingArguments

    from road_ray.distillation.hf_trainer import DistillationTrainer

    opened, tokenizer = ensemble
    directory = publish(
        tmp_path / "student",
        "electra",
        "ForSequenceClassification",
        labels=LABELS,
        tokenizer=tokenizer,
    )

    def collate(rows):
        texts = [row["text"] for row in rows]
        batch = dict(tokenizer(texts, padding=True, return_tensors="pt"))
        return batch | {"texts": texts, "labels": torch.tensor([row["label"] for row in rows])}

    learnt = {}
    for weight in (0.0, 1.0):
        arguments = TrainingArguments(
            output_dir=str(tmp_path / "out"),
            max_steps=2,
            per_device_train_batch_size=3,
            remove_unused_columns=False,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
            use_cpu=True,
        )
        data = [{"text": text, "label": number % 2} for number, text in enumerate(TEXTS)] * 2
        trainer = DistillationTrainer(
            model=AutoModelForSequenceClassification.from_pretrained(directory),
            args=arguments,
            train_dataset=data,
            eval_dataset=data,
            data_collator=collate,
            ensemble=opened,
            kd_weight=weight,
        )
        trainer.train()
        assert trainer.evaluate()["eval_loss"] > 0
        learnt[weight] = trainer.model.classifier.out_proj.weight.detach().clone()
    assert not torch.allclose(learnt[0.0], learnt[1.0], atol=1e-6)
