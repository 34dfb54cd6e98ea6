"""Weighted distillation with Hugging Face's Trainer: ``DistillationTrainer`` replaces ``Trainer``.

    python examples/hf_trainer.py

Needs ``pip install road-ray[trainer]`` (accelerate, which the Trainer requires).
"""

import sys
import tempfile
from pathlib import Path

import tiny_teachers
from torch.utils.data import DataLoader
from transformers import DataCollatorWithPadding, TrainingArguments

import road_ray as rr


def main(folder: Path, host: str = "process", epochs: int = 3) -> dict[str, float]:
    """Return the metrics of the last evaluation."""
    tokenizer = tiny_teachers.make_tokenizer()
    directories = tiny_teachers.train_teachers(folder / "teachers", tokenizer)
    rows = tiny_teachers.encoded_rows(tokenizer)
    collate = DataCollatorWithPadding(tokenizer)
    with rr.Ensemble(directories, task="sst2", store=folder / "store", host=host) as ensemble:
        ensemble.label(DataLoader(rows, 8, collate_fn=collate))  # once; every epoch reads it
        trainer = rr.DistillationTrainer(
            model=tiny_teachers.make_student(tokenizer),
            args=TrainingArguments(
                output_dir=str(folder / "student"),
                num_train_epochs=epochs,
                per_device_train_batch_size=8,
                learning_rate=3e-3,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
            ),
            train_dataset=rows,
            eval_dataset=rows,
            data_collator=collate,
            processing_class=tokenizer,
            compute_metrics=lambda p: {"accuracy": float((p[0].argmax(-1) == p[1]).mean())},
            ensemble=ensemble,
            weighting="correctness",
            temperature=2.0,
            kd_weight=0.5,
        )
        trainer.train()
        return dict(trainer.evaluate())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        print(main(Path(directory), *sys.argv[1:2]))
