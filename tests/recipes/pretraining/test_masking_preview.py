"""What is shown of a pre-training is what its objective hides and its generator draws."""

from __future__ import annotations

import re

import torch

import road_ray as rr
from road_ray.recipes.pretraining.pretrain import prepare
from road_ray.recipes.pretraining.preview import peek
from road_ray.training.checkpoint.state import load_weights
from road_ray.training.worker import Worker
from road_ray.verbs import configure

HIDDEN = re.compile(r"\[[^\]\s]+( -> [^\]\s]+)?\]|\[MASK: \S+\]")
SPECIAL = {"[CLS]", "[SEP]", "[UNK]"}


def hidden(text: str) -> list[str]:
    marks = [match.group() for match in HIDDEN.finditer(text)]
    return [mark for mark in marks if mark not in SPECIAL]


def test_replacements_are_those_of_the_trained_generator(pretrained, pretraining):
    config = configure("pretrain", overrides=pretraining | {"run_dir": str(pretrained.directory)})
    made = prepare(config, Worker())
    load_weights(made.objective, pretrained.directory / "checkpoints" / "step-00000006")
    with torch.no_grad():
        batch = made.objective.prepare(next(made.steps.since(6))[0])
        corrupted = made.objective.eval().corrupted(batch)
    head, *rows = peek(str(pretrained.directory), 100).split("\n\n")
    assert head == "electra, the batch after step 6: 8 of 8 rows"
    shown = [hidden(row) for row in rows]
    assert list(map(len, shown)) == corrupted.chosen.sum(1).tolist()
    arrows = [sum("->" in mark for mark in row) for row in shown]
    assert arrows == corrupted.replaced.sum(1).tolist()


def test_masks_of_a_masked_model(pretraining, tmp_path):
    run = rr.pretrain(
        overrides=pretraining | {"objective.name": "mlm", "training.steps": 1}, run_dir=tmp_path
    )
    marks = hidden(peek(str(run.directory), 3))
    masked = [mark for mark in marks if mark.startswith("[MASK: ")]
    assert 0 < len(masked) <= len(marks)
    assert not any("->" in mark for mark in marks)
