"""Every way to ask the teachers gives the same answers, or nothing starts."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from road_ray.data.catalog import task
from road_ray.distillation.ensemble import LocalEnsemble
from road_ray.distillation.teacher import TeacherOptions, check_parity, inputs_of
from road_ray.errors import CheckpointError

NLI = task("nli")
BATCH = {
    "input_ids": torch.randint(5, 24, (4, 8), generator=torch.Generator().manual_seed(0)),
    "attention_mask": torch.ones(4, 8, dtype=torch.long),
}


@pytest.fixture
def directories(tmp_path, teacher):
    return [teacher(tmp_path / str(seed), seed) for seed in range(2)]


@pytest.fixture
def check(directories):
    return partial(check_parity, BATCH, directories, NLI)


def answers_of(directories, precision="auto"):
    options = TeacherOptions(precision=precision)
    return LocalEnsemble.load(directories, NLI, options).gather(inputs_of(BATCH))


def test_rounding_is_not_drift(check, directories):
    answers = answers_of(directories)
    assert check("its actor", answers) == [0.0, 0.0]
    assert all(0 < difference < 2**-8 for difference in check("its table", answers.half().float()))


def moved(by):
    def move(answers):
        answers[1, 2, 0] += by
        return answers

    return move


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (moved(0.5), r"teacher 1 \(.*1\).*its table.*by up to 0\.5.*allowed"),
        (moved(float("nan")), "teacher 1 .*by up to nan"),
        (lambda answers: answers.flip(0), "teacher 0"),
        (lambda answers: answers[..., [1, 0, 2]], "teacher 0"),
        (lambda answers: answers[..., :1], "by up to inf"),
    ],
    ids=["one number", "NaN", "order of teachers", "order of classes", "shape"],
)
def test_drift_names_teacher_path_and_sizes(check, directories, change, message):
    with pytest.raises(CheckpointError, match=f"(?s){message}"):
        check("its table", change(answers_of(directories)))


def test_bf16_is_rounding_only_where_teachers_may_take_it(check, directories):
    halved = answers_of(directories, "bf16")
    check("its actor", halved)  # auto: this machine may differ from the actor's
    with pytest.raises(CheckpointError, match="rounding"):
        check("its actor", halved, TeacherOptions(precision="fp32"))
