"""Gold losses by hand: classes, numbers, spans, and what is not counted."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import BCEWithLogitsLoss
from torch.testing import assert_close
from transformers import ElectraConfig, ElectraModel
from transformers.loss.loss_utils import ForSequenceClassificationLoss

from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    JointSpan,
    MultiLabel,
    Regress,
    Span,
    Tag,
    Task,
)
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.supervised import Supervised, label_loss

NLI = Task("nli", Classify(("contradiction", "entailment", "neutral")))
SIMILARITY = Task("similarity", Regress(0, 5))
MRC = Task("mrc", Span())
NER = Task("ner", Tag(("O", "B-X")))
SWAG = Task("completion", Choose(2))


def test_classes_are_judged_by_cross_entropy_and_unlabelled_rows_are_left_out():
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [1.0, 1.0, 1.0]]))
    total, count = label_loss(NLI, logits, {"labels": torch.tensor([0, 2, -100])})
    assert_close(total, torch.tensor(-math.log(0.5) - math.log(0.8)))
    assert count == 2


def test_class_weights_and_smoothing_are_those_of_pytorch_over_the_number_of_labels():
    torch.manual_seed(0)
    logits, labels = torch.randn(4, 3), torch.tensor([0, 2, -100, 2])
    weights = torch.tensor([2.0, 1.0, 0.5])
    total, count = label_loss(
        NLI, logits, {"labels": labels}, class_weights=weights, smoothing=0.25
    )
    by_hand = 0.0
    for row in (0, 1, 3):
        logs = logits[row].log_softmax(-1)
        by_hand -= (
            0.75 * weights[labels[row]] * logs[labels[row]] + 0.25 / 3 * (weights * logs).sum()
        )
    assert_close(total, by_hand)
    assert count == 3


def test_numbers_are_judged_by_the_square_and_unlabelled_rows_are_left_out():
    logits = torch.tensor([[1.0], [4.5], [7.0]], requires_grad=True)
    total, count = label_loss(SIMILARITY, logits, {"labels": torch.tensor([3.0, 4.0, -100.0])})
    assert_close(total, torch.tensor((2**2 + 0.5**2) / 5**2))  # in units of the range 0 to 5
    assert count == 2
    total.backward()
    assert_close(logits.grad, torch.tensor([[-4.0], [1.0], [0.0]]) / 5**2)


def test_tags_are_judged_by_the_word_and_choices_by_the_question():
    logits = torch.log(torch.tensor([[[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]]))
    total, count = label_loss(NER, logits, {"labels": torch.tensor([[-100, 1, 0]])})
    assert_close(total, torch.tensor(-math.log(0.8) - math.log(0.9)))
    assert count == 2
    chosen = torch.log(torch.tensor([[0.25, 0.75], [0.5, 0.5]]))
    total, count = label_loss(SWAG, chosen, {"labels": torch.tensor([1, -100])})
    assert_close(total, torch.tensor(-math.log(0.75)))
    assert count == 1


def span_batch(**more):
    return {
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 0]] * 2),
        "token_type_ids": torch.tensor([[0, 0, 0, 1, 1, 0]] * 2),
    } | more


def test_spans_are_judged_by_the_mean_of_start_and_end_over_allowed_positions():
    logits = torch.zeros(2, 2, 6)
    logits[:, :, 1] = 100.0  # the question: not allowed
    logits[:, :, 5] = 100.0  # padding
    logits[0, 0, 3] = math.log(2)  # start 3 of {0, 3, 4}: 2 / 4
    gold = {"start_positions": torch.tensor([3, 0]), "end_positions": torch.tensor([4, 0])}
    total, count = label_loss(MRC, logits, span_batch(**gold))
    assert_close(total, torch.tensor((math.log(2) + 3 * math.log(3)) / 2))
    assert count == 2
    gold["start_positions"][1] = gold["end_positions"][1] = -100
    total, count = label_loss(MRC, logits, span_batch(**gold))
    assert_close(total, torch.tensor((math.log(2) + math.log(3)) / 2))
    assert count == 1


def test_a_gold_position_that_is_not_allowed_gives_no_finite_loss():
    gold = {"start_positions": torch.tensor([1, 0]), "end_positions": torch.tensor([4, 0])}
    total, _ = label_loss(MRC, torch.zeros(2, 2, 6), span_batch(**gold))
    assert not total.isfinite()


@pytest.fixture
def model(discriminator):
    torch.manual_seed(0)
    return MultitaskModel(ElectraModel(discriminator.config).eval(), [NLI, MRC])


def test_a_pass_uses_the_head_of_its_task_and_names_its_data_set(model, batch):
    objective = Supervised(model)
    assert objective.sparse
    assert not Supervised(MultitaskModel(model.encoder, [NLI])).sparse
    assert not Supervised(model, one_dataset=True).sparse
    labels = {"labels": torch.tensor([0, 1, 2, -100, 1])}
    terms = objective(batch | labels | {"task": "nli", "dataset": "mnli"}).terms
    assert {name: int(term.count) for name, term in terms.items()} == {"mnli": 4}
    terms["mnli"].total.backward()
    assert all(p.grad is None for p in model.heads["mrc"].parameters())
    assert all(p.grad is not None for p in model.heads["nli"].parameters())
    assert all(p.grad is not None for p in model.encoder.parameters())


def test_a_second_head_learns_from_labels_of_its_own_in_the_same_pass(discriminator, batch):
    second = Task("second", NLI.kind)
    model = MultitaskModel(ElectraModel(discriminator.config).eval(), [NLI, second])
    labels = torch.tensor([0, 1, 2, -100, 1])
    given = {"labels": labels, "labels/second": labels.clamp(max=1), "task": "nli", "dataset": "d"}
    terms = Supervised(model, one_dataset=True)(batch | given).terms
    assert {name: int(term.count) for name, term in terms.items()} == {"d": 4, "d_second": 4}
    terms["d_second"].total.backward()
    assert all(p.grad is not None for p in model.heads["second"].parameters())


def test_the_export_is_that_of_the_first_task_unless_another_is_named(model, tmp_path):
    Supervised(model).export(tmp_path / "a")
    Supervised(model, export_task="mrc").export(tmp_path / "b")
    assert "SequenceClassification" in (tmp_path / "a" / "config.json").read_text()
    assert "QuestionAnswering" in (tmp_path / "b" / "config.json").read_text()


def test_joint_spans_add_half_the_cross_entropy_of_no_answer():
    logits = torch.zeros(2, 3, 6)
    logits[:, 2] = math.log(3)  # p(no answer) = 3 / 4
    gold = {
        "start_positions": torch.tensor([3, -100]),
        "end_positions": torch.tensor([4, -100]),
        "impossible": torch.tensor([0.0, 1.0]),
    }
    total, count = label_loss(Task("mrc_joint", JointSpan()), logits, span_batch(**gold))
    assert_close(total, torch.tensor(math.log(3) + 0.5 * math.log(4)))
    assert count == 1


def test_several_labels_have_the_loss_that_transformers_computes():
    torch.manual_seed(0)
    logits = 3 * torch.randn(5, 3)
    labels = torch.tensor([[1, 0, 1], [0, 0, 0], [-100] * 3, [1, 1, 1], [0, 1, 0]])
    known = labels[:, 0] >= 0
    task = Task("mood", MultiLabel(("joy", "anger", "fear")))
    total, count = label_loss(task, logits, {"labels": labels})
    config = ElectraConfig(num_labels=3, problem_type="multi_label_classification")
    expected = ForSequenceClassificationLoss(labels[known].float(), logits[known], config)
    assert_close(total / count, expected, rtol=0, atol=1e-6)
    weights = torch.tensor([2.0, 1.0, 0.5])
    weighted, _ = label_loss(task, logits, {"labels": labels}, class_weights=weights)
    by_hand = BCEWithLogitsLoss(pos_weight=weights)(logits[known], labels[known].float())
    assert_close(weighted / count, by_hand, rtol=0, atol=1e-6)


def test_a_label_of_several_is_one_of_two_classes():
    torch.manual_seed(0)
    logits, labels = torch.randn(6, 1), torch.tensor([1, 0, 1, -100, 0, 1])
    pairs = torch.cat([torch.zeros(6, 1), logits], 1)
    one, two = Task("one", MultiLabel(("joy",))), Task("two", Classify(("other", "joy")))
    own = label_loss(one, logits, {"labels": labels[:, None]}, smoothing=0.2)
    assert_close(own, label_loss(two, pairs, {"labels": labels}, smoothing=0.2))
