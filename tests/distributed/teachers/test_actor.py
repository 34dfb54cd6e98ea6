"""``TeacherActor`` as a class: answers equal those of the teachers themselves."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from road_ray.data.catalog import task
from road_ray.distillation.ensemble.local_ensemble import LocalEnsemble
from road_ray.distillation.ensemble.teacher import Teacher
from road_ray.distributed.teachers.actor import (
    Hosting,
    TeacherActor,
    packed_inputs,
    packed_logits,
    token_axis,
)
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


@pytest.mark.parametrize("kind", ["nli", "mrc"])
def test_students_that_ask_at_once_get_what_they_would_get_alone(tmp_path, kind):
    asked_task = {"nli": NLI, "mrc": MRC}[kind]
    place = str(make_teacher(tmp_path / "one", 0, kind=kind))
    lengths = [10, 10, 9, 11, 20, 12]
    given = [packed_inputs(batches(1, kind=kind, length=length)[0]) for length in lengths]
    actor = TeacherActor(place, asked_task, Hosting(wait_seconds=1.0))
    alone = [actor.logits(one)[0] for one in given]
    got = [None] * len(given)

    def student(number):
        got[number] = actor.logits(given[number], str(number))[0]

    threads = [threading.Thread(target=student, args=(n,)) for n in range(len(given))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for one, expected in zip(got, alone, strict=True):
        assert one.shape == expected.shape
        assert_close(
            torch.tensor(one).float(), torch.tensor(expected).float(), rtol=2e-3, atol=2e-3
        )


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


def test_spans_and_tags_have_a_token_axis():
    named = (NLI, MRC, task("ner"))
    assert [token_axis(item.kind) for item in named] == [None, -1, -2]


def test_a_teacher_with_permuted_labels_answers_as_before(tmp_path):
    turned = [2, 0, 1]
    plain = make_teacher(tmp_path / "plain", 0)
    place = make_teacher(tmp_path / "turned", 0, labels=[NLI.kind.labels[i] for i in turned])
    weights = load_file(plain / "model.safetensors")
    for name in ("classifier.out_proj.weight", "classifier.out_proj.bias"):
        weights[name] = weights[name][turned].clone()
    save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
    given = packed_inputs(batches(1)[0])
    expected, permuted = (TeacherActor(str(x), NLI).logits(given)[0] for x in (plain, place))
    assert np.abs(expected - np.roll(expected, 1, -1)).max() > 0.1  # the order matters
    assert_close(torch.tensor(permuted), torch.tensor(expected))


@pytest.mark.parametrize("labels", [["yes", "no", "perhaps"], ["entailment"]])
def test_a_teacher_of_other_labels_is_refused(tmp_path, labels):
    place = make_teacher(tmp_path / "other", 0, labels=labels)
    with pytest.raises(CheckpointError, match="other"):
        TeacherActor(str(place), NLI)
