"""Distillation: losses by hand, of logits and of hidden states."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers import ElectraForSequenceClassification, ElectraModel

from road_ray.data.task_and_dataset import Classify, Regress, Span, Task
from road_ray.distillation.hidden_state_matching import (
    HiddenStatesTeacher,
    StateMatching,
    attention_error,
    hidden_error,
)
from road_ray.distillation.schedule import schedule
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.distilled import Distilled

PAIR, SCORE = Task("pair", Classify(("a", "b"))), Task("score", Regress(0, 5))
MRC = Task("mrc", Span())


class Fixed(nn.Module):
    """A model whose logits are given."""

    def __init__(self, task: Task, logits: torch.Tensor) -> None:
        super().__init__()
        self.tasks = {task.name: task}
        self.encoder = nn.Identity()
        self.heads = nn.ModuleDict()
        self.logits = nn.Parameter(logits)

    def forward(self, batch):
        return self.logits


def batch(task: Task, soft: torch.Tensor, *, keep: torch.Tensor | None = None, **gold: object):
    ones = torch.ones(len(soft), soft.shape[-1] if task is MRC else 3, dtype=torch.long)
    if keep is None:
        keep = torch.ones(soft.shape[: 2 if task is MRC else 1], dtype=torch.bool)
    shared = {"task": task.name, "dataset": "d", "soft_logits": soft, "kd_keep": keep}
    return shared | {"input_ids": ones, "attention_mask": ones, "token_type_ids": ones} | gold


def terms(task, logits, soft, *, kd_weight=0.5, temperature=2.0, **more):
    weight = schedule("constant", kd_weight)
    objective = Distilled(Fixed(task, logits), kd_weight=weight, temperature=temperature)
    return objective(batch(task, soft, **more)).terms


def test_gold_and_soft_share_the_weight():
    logits = torch.tensor([[0.0, math.log(3)]])
    made = terms(PAIR, logits, torch.zeros(1, 2), kd_weight=0.25, labels=torch.tensor([1]))
    assert set(made) == {"d", "d_soft"}
    assert made["d"].weight == 0.75
    assert made["d_soft"].weight == 0.25
    assert made["d"].total.item() == pytest.approx(-math.log(0.75))
    # Teachers even, student 1 : sqrt(3) at temperature 2; times four.
    share = 1 / (1 + math.sqrt(3))
    kl = 0.5 * math.log(0.5 / share) + 0.5 * math.log(0.5 / (1 - share))
    assert made["d_soft"].total.item() == pytest.approx(4 * kl, rel=1e-5)


def test_a_student_that_agrees_has_no_soft_loss_and_one_that_is_dropped_neither():
    logits = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
    made = terms(PAIR, logits, logits.clone(), labels=torch.tensor([0, 1]))
    assert made["d_soft"].total.item() == pytest.approx(0, abs=1e-6)
    keep = torch.tensor([False, False])
    made = terms(PAIR, logits, -logits, keep=keep, labels=torch.tensor([0, 1]))
    assert made["d_soft"].total.item() == 0
    assert made["d_soft"].count.item() == 2


def test_regressions_learn_the_teachers_number():
    logits = torch.tensor([[1.0], [2.0]])
    made = terms(SCORE, logits, torch.tensor([[2.0], [2.0]]), labels=torch.tensor([1.0, 2.0]))
    assert made["d"].total.item() == 0
    assert made["d_soft"].total.item() > 0


def test_padding_has_no_say_in_a_span():
    logits = torch.zeros(1, 2, 4)
    soft = torch.zeros(1, 2, 4)
    soft[..., -1] = 50.0  # on padding
    gold = {"start_positions": torch.tensor([1]), "end_positions": torch.tensor([2])}
    made = terms(MRC, logits, soft, attention_mask=torch.tensor([[1, 1, 1, 0]]), **gold)
    assert made["d_soft"].total.item() == pytest.approx(0, abs=1e-6)


def test_an_example_without_gold_still_learns_from_the_teachers():
    logits = torch.zeros(2, 2)
    made = terms(PAIR, logits, torch.tensor([[4.0, 0.0]] * 2), labels=torch.tensor([0, -100]))
    assert made["d"].count.item() == 1
    assert made["d_soft"].count.item() == 2
    alone = terms(PAIR, logits[:1], torch.tensor([[4.0, 0.0]]), labels=torch.tensor([-100]))
    assert alone["d_soft"].count.item() == 1
    assert made["d_soft"].total.item() == pytest.approx(2 * alone["d_soft"].total.item())


def test_of_a_tagging_every_labelled_token_is_an_example():
    logits = torch.tensor([[[0.0, 1.0], [2.0, 0.0], [9.0, 9.0]]])
    keep = torch.ones(1, 3, dtype=torch.bool)
    tagged = terms(PAIR, logits, -logits, keep=keep, labels=torch.tensor([[0, 1, -100]]))
    assert tagged["d_soft"].count.item() == 2
    apart = terms(PAIR, logits[0, :2], -logits[0, :2], labels=torch.tensor([0, 1]))
    torch.testing.assert_close(tagged["d_soft"].total, apart["d_soft"].total)


def test_teachers_of_a_batch_that_keeps_them_apart_are_averaged_by_their_losses():
    each = torch.tensor([[[2.0, 0.0]], [[0.0, 2.0]]])
    options = {"teacher_logits": each, "teacher_weights": torch.ones(2, 1)}
    made = terms(PAIR, torch.zeros(1, 2), each.mean(0), labels=torch.tensor([0]), **options)
    alone = terms(PAIR, torch.zeros(1, 2), each[0], labels=torch.tensor([0]))
    torch.testing.assert_close(made["d_soft"].total, alone["d_soft"].total)
    together = terms(PAIR, torch.zeros(1, 2), each.mean(0), labels=torch.tensor([0]))
    assert together["d_soft"].total.item() == pytest.approx(0, abs=1e-6)


def test_annealed_weights_follow_the_fraction_and_the_gradient_is_that_to_the_mixed_target():
    """BAM's own form: target = f * onehot + (1 - f) * teacher."""
    fixed = Fixed(PAIR, torch.tensor([[0.3, -0.2], [1.0, 0.5]]))
    objective = Distilled(fixed, kd_weight=schedule("linear", 0.5), temperature=1.0)
    soft, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
    losses = objective(batch(PAIR, soft, labels=labels, fraction=0.25))
    assert (losses.terms["d"].weight, losses.terms["d_soft"].weight) == (0.25, 0.75)
    assert losses.metrics["kd_weight"][0].item() == 0.75
    loss = sum(term.weight * term.total / term.count for term in losses.terms.values())
    (gradient,) = torch.autograd.grad(loss, fixed.logits)
    target = 0.25 * nn.functional.one_hot(labels, 2) + 0.75 * soft.softmax(-1)
    (other,) = torch.autograd.grad(nn.functional.cross_entropy(fixed.logits, target), fixed.logits)
    assert_close(gradient, other)


def test_the_error_of_hidden_states_by_hand():
    student, teacher = torch.zeros(1, 3, 2), torch.tensor([[[1.0, 3.0], [0.0, 2.0], [9.0, 9.0]]])
    real = torch.tensor([[True, True, False]])
    assert hidden_error(student, teacher, real).item() == (1 + 9) / 2 + 4 / 2


def test_the_error_of_attention_by_hand():
    """Two real tokens, two heads; the third is padding."""
    student = torch.tensor([[[[1.0, 0.0, 9.0], [0.5, 0.5, 9.0], [9.0] * 3]] * 2])
    teacher = torch.tensor([[[[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0] * 3]] * 2])
    teacher[0, 1] = student[0, 1]
    real = torch.tensor([[True, True, False]])
    assert attention_error(student, teacher, real).item() == (2.0 + 0.0) / 2
    first = attention_error(student, teacher[:, :1], real)  # the means over heads are compared
    assert first.item() == 2.0


@pytest.fixture
def pair(tmp_path, sized):
    """A student, and the directory of a teacher of the very same weights."""
    torch.manual_seed(0)
    teacher = ElectraForSequenceClassification(sized(32))
    teacher.save_pretrained(tmp_path)
    student = ElectraModel(sized(32))
    student.load_state_dict(teacher.electra.state_dict())
    return MultitaskModel(student, [PAIR]), tmp_path


@pytest.fixture
def soft_batch(batch):
    size = len(batch["input_ids"])
    soft = {"soft_logits": torch.zeros(size, 2), "kd_keep": torch.ones(size, dtype=torch.bool)}
    labels = torch.zeros(size, dtype=torch.long)
    return batch | {"task": "pair", "dataset": "d", "labels": labels} | soft


def matched(pair, **options) -> Distilled:
    model, directory = pair
    attentions = options.get("attention_weight", 0) > 0
    teacher = HiddenStatesTeacher(directory, attentions=attentions)
    return Distilled(model, matching=StateMatching(model.encoder, teacher, **options))


def test_a_copy_of_its_teacher_has_nothing_to_learn_from_it(pair, soft_batch):
    made = matched(pair, hidden_weight=0.5, attention_weight=2.0)(soft_batch).terms
    assert set(made) == {"d", "d_soft", "d_hidden", "d_attention"}
    for name in ("d_hidden", "d_attention"):
        assert made[name].total.item() == pytest.approx(0, abs=1e-6)
        assert made[name].count.item() == soft_batch["attention_mask"].sum()
    assert (made["d_hidden"].weight, made["d_attention"].weight) == (0.25, 1.0)  # two layers each


def test_what_it_says_is_learnt_as_without_matching(pair, soft_batch):
    made = matched(pair, hidden_weight=0.5, attention_weight=2.0, layers="last")(soft_batch).terms
    plain = Distilled(pair[0])(soft_batch).terms
    for name, term in plain.items():
        assert_close(made[name].total, term.total)
    assert made["d_hidden"].weight == 0.5


def test_padding_changes_nothing(pair, soft_batch):
    objective = matched(pair, hidden_weight=1.0, attention_weight=1.0)
    with torch.no_grad():
        for parameter in objective.encoder.parameters():
            parameter.mul_(1.1)
    of_words = ("labels", "soft_logits", "kd_keep", "input_ids", "attention_mask", "token_type_ids")
    wide = soft_batch | {name: soft_batch[name][1:3] for name in of_words}
    narrow = wide | {name: wide[name][:, :17] for name in of_words[3:]}
    there, here = objective(narrow).terms, objective(wide).terms
    for name in ("d_hidden", "d_attention"):
        assert there[name].total.item() > 0
        assert_close(here[name].total, there[name].total, rtol=1e-4, atol=1e-4)


def test_a_narrower_student_learns_a_projection_of_its_own(pair, soft_batch, tmp_path, sized):
    student = MultitaskModel(ElectraModel(sized(16)), [PAIR])
    matching = StateMatching(
        student.encoder, HiddenStatesTeacher(pair[1]), hidden_weight=1.0, layers=((1, 2), (2, 2))
    )
    objective = Distilled(student, matching=matching)
    shapes = {name: m.weight.shape for name, m in matching.projections.items()}
    assert shapes == {"1": (32, 16), "2": (32, 16)}
    made = objective(soft_batch).terms
    made["d_hidden"].total.backward()
    assert matching.projections["1"].weight.grad.abs().sum() > 0
    assert student.encoder.embeddings.word_embeddings.weight.grad.abs().sum() > 0
    names = set(objective.state_dict())
    assert {name.split(".")[0] for name in names} == {"model", "encoder", "matching"}
    objective.export(tmp_path / "exported")
    loaded = ElectraForSequenceClassification.from_pretrained(tmp_path / "exported")
    assert loaded.config.hidden_size == 16
