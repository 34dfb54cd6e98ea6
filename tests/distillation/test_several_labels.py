"""Distillation of several labels: each is a choice of two classes, with every rule and loss."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from transformers import ElectraForSequenceClassification

from road_ray.data.task_and_dataset import Classify, MultiLabel, Task
from road_ray.distillation.annotate import annotate, model_inputs, student_loss
from road_ray.distillation.losses import kd_loss, soft_loss_sum, two_classes
from road_ray.distillation.teacher_directory import check_teacher
from road_ray.distillation.weighting import RULES, resolve
from road_ray.errors import CheckpointError
from tests.tiny_encoder import small_config
from tests.tiny_teacher import LABELS, make_teacher


class Answers:
    """An ensemble that answers with the logits it is given, ``[M, B, C]``."""

    def __init__(self, logits):
        self.answer, self.size, self.stats = logits, len(logits), {}

    def submit(self, batch):
        return None

    def gather(self, handle):
        return self.answer


def annotated(logits, labels, rule="mean", each=False):
    batch = {"input_ids": torch.zeros(len(labels), 4, dtype=torch.long), "labels": labels}
    (out,) = annotate([batch], Answers(logits), resolve(rule), each=each)
    return out


def test_the_loss_is_the_binary_divergence_by_hand():
    torch.manual_seed(0)
    student, teacher, temperature = torch.randn(4, 3), torch.randn(4, 3), 2.0
    batch = annotated(teacher[None], torch.zeros(4, 3, dtype=torch.long))
    total, count = soft_loss_sum(student, batch, temperature=temperature)
    p, q = (teacher / temperature).sigmoid(), (student / temperature).sigmoid()
    divergence = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    assert_close(total / count, temperature**2 * divergence.mean())


def test_one_label_of_several_is_a_task_of_two_classes():
    torch.manual_seed(0)
    student, teachers, labels = (
        torch.randn(5, 1),
        torch.randn(3, 5, 1),
        torch.tensor([1, 0, 1, 1, 0]),
    )
    pairs, pairs_of_teachers = (torch.cat([0 * x, x], -1) for x in (student, teachers))
    for rule in RULES:
        several, two = (
            annotated(teachers, labels[:, None], rule),
            annotated(pairs_of_teachers, labels, rule),
        )
        own, _ = soft_loss_sum(student, several, temperature=3.0)
        expected, _ = soft_loss_sum(pairs, two, temperature=3.0)
        assert_close(own, expected, msg=rule)
        counts = [{k: v for k, v in x["stats"].items() if "right" in k} for x in (several, two)]
        assert counts[0] == counts[1]


def test_weighted_kd_counts_a_teacher_right_on_a_label_if_its_sign_agrees():
    teachers = torch.tensor([[[2.0, -1.0, 3.0]], [[-2.0, 1.0, 1.0]]])
    batch = annotated(teachers, torch.tensor([[1, 0, 1]]), "correctness", each=True)
    # Of M = 2 the wrong one has 0.75, the right one 1.25; both right: 1 each.
    expected = torch.tensor([[[1.25, 1.25, 1.0]], [[0.75, 0.75, 1.0]]])
    assert_close(batch["teacher_weights"], expected)
    mean = batch["soft_logits"][..., 1] - batch["soft_logits"][..., 0]
    assert_close(mean, torch.tensor([[(2.5 - 1.5) / 2, (-1.25 + 0.75) / 2, 2.0]]))
    assert batch["stats"]["teachers/right_1"] == 2
    assert batch["stats"]["teachers/right_2"] == 1
    unlabelled = annotated(teachers, torch.full((1, 3), -100), "correctness")
    assert_close(unlabelled["soft_logits"], two_classes(teachers.mean(0)))


def test_float_labels_of_a_custom_loop_are_several_labels_and_no_numbers():
    student, teachers = torch.randn(2, 3), torch.randn(2, 2, 3)
    labels = torch.tensor([[1, 0, 0], [0, 1, 1]])
    own = annotated(teachers, labels.float(), "correctness")
    assert_close(own["soft_logits"], annotated(teachers, labels, "correctness")["soft_logits"])
    total, count = soft_loss_sum(student, own, temperature=2.0, regression=True)
    assert_close(total / count, kd_loss(two_classes(student), own["soft_logits"], temperature=2.0))


def test_a_model_of_transformers_learns_in_a_loop_of_ones_own():
    config = small_config(num_labels=3, problem_type="multi_label_classification")
    model = ElectraForSequenceClassification(config).eval()
    batch = annotated(torch.randn(2, 2, 3), torch.tensor([[1.0, 0, 0], [0, 1, 1]]))
    outputs = model(**model_inputs(batch))
    loss = student_loss(outputs, batch, temperature=2.0, kd_weight=0.25)
    soft = kd_loss(two_classes(outputs.logits), batch["soft_logits"], temperature=2.0)
    assert_close(loss, 0.75 * outputs.loss + 0.25 * soft)


def test_a_teacher_of_another_problem_is_refused(tmp_path):
    place = make_teacher(tmp_path, labels=LABELS)
    with pytest.raises(CheckpointError, match="problem_type is None; task 'moods' has any number"):
        check_teacher(place, Task("moods", MultiLabel(LABELS)))
    config = place / "config.json"
    several = '{"problem_type": "multi_label_classification",'
    config.write_text(config.read_text().replace("{", several, 1))
    check_teacher(place, Task("moods", MultiLabel(LABELS)))
    with pytest.raises(CheckpointError, match="task 'nli' has one label a row"):
        check_teacher(place, Task("nli", Classify(LABELS)))
