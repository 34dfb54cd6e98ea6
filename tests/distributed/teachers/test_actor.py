"""``TeacherActor`` as a class: answers equal those of the teachers themselves."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from road_ray.data.catalog import task
from road_ray.distillation.ensemble import LocalEnsemble
from road_ray.distillation.teacher import Teacher
from road_ray.distributed.teachers.actor import TeacherActor, packed_inputs, packed_logits
from road_ray.errors import CheckpointError
from tests.distributed.small import FLOAT16, MRC, NLI, batches
from tests.tiny_teacher import make_teacher


def test_what_travels_of_a_batch_is_small_and_nothing_but_inputs():
    ids, mask = torch.tensor([[2, 70_000, 3]]), torch.tensor([[True, True, False]])
    sent = packed_inputs({"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([1])})
    assert {name: (array.dtype, array.tolist()) for name, array in sent.items()} == {
        "input_ids": (np.int32, [[2, 70_000, 3]]),
        "attention_mask": (np.int8, [[1, 1, 0]]),
    }


@pytest.mark.parametrize("kind", ["nli", "mrc"])
def test_an_actor_answers_as_its_teacher_in_float16(tmp_path, kind):
    asked_task = {"nli": NLI, "mrc": MRC}[kind]
    place = make_teacher(tmp_path / "one", 0, kind=kind)
    actor = TeacherActor(str(place), asked_task)
    local = LocalEnsemble.load([place], asked_task)
    (first,) = batches(1, kind=kind)
    answer, seconds, figures = actor.logits(packed_inputs(first))
    assert seconds > 0
    assert figures == {}
    assert answer.dtype == np.float16
    (expected,) = local.gather(local.submit(first))
    assert_close(torch.tensor(answer).float(), expected, **FLOAT16)
    assert actor.health() == os.getpid()


def test_numbers_keep_their_precision_and_large_logits_are_refused(tmp_path):
    place = make_teacher(tmp_path / "sts", 0, labels=["score"])
    (first,) = batches(1)
    inputs = {name: torch.tensor(array) for name, array in packed_inputs(first).items()}
    regression = Teacher(place, task("similarity"))
    assert packed_logits(regression, inputs).dtype == np.float32
    teacher = Teacher(make_teacher(tmp_path / "nli", 0), NLI)
    torch.nn.init.constant_(teacher._model.classifier.out_proj.bias, 1e6)
    with pytest.raises(CheckpointError, match="do not fit float16"):
        packed_logits(teacher, inputs)
