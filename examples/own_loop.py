"""Weighted distillation in a custom PyTorch loop.

    python examples/own_loop.py

The teachers are a BERT, a RoBERTa and an ELECTRA; the student is a smaller BERT. Each teacher
labels all sentences once; every epoch reads its logits from the store.
"""

import sys
import tempfile
from pathlib import Path

import tiny_teachers
import torch
from transformers import DataCollatorWithPadding

import road_ray as rr


def main(folder: Path, host: str = "process", epochs: int = 3) -> list[float]:
    """Return the mean loss of each epoch. ``host="actors"`` puts each teacher in a Ray actor."""
    tokenizer = tiny_teachers.make_tokenizer()
    directories = tiny_teachers.train_teachers(folder / "teachers", tokenizer)
    student = tiny_teachers.make_student(tokenizer)
    batches = torch.utils.data.DataLoader(
        tiny_teachers.encoded_rows(tokenizer),
        8,
        shuffle=True,
        collate_fn=DataCollatorWithPadding(tokenizer),
    )
    optimizer = torch.optim.AdamW(student.parameters(), lr=3e-3)
    losses = []
    with rr.Ensemble(directories, task="sst2", store=folder / "store", host=host) as ensemble:
        ensemble.label(batches)
        for _ in range(epochs):
            total = 0.0
            for batch in ensemble.annotate(batches, weighting="correctness", wrong=0.75):
                outputs = student(**rr.model_inputs(batch))
                loss = rr.student_loss(outputs, batch, temperature=2.0, kd_weight=0.5)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                total += loss.item()
            losses.append(total / len(batches))
    return losses


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        print(main(Path(directory), *sys.argv[1:2]))
