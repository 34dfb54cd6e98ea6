"""Gold losses by hand: classes, numbers, spans, and what is not counted."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import BCEWithLogitsLoss
from torch.testing import assert_close
from transformers import ElectraConfig, ElectraForSequenceClassification, ElectraModel
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
from road_ray.distillation.hidden_state_matching import (
    HiddenStatesTeacher,
    StateMatching,
    attention_error,
    hidden_error,
)
from road_ray.distillation.schedule import Schedule
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.supervised import Supervised, label_loss
from tests.objectives.conftest import config_of

NLI = Task("nli", Classify(("contradiction", "entailment", "neutral")))
SIMILARITY = Task("similarity", Regress(0, 5))
MRC = Task("mrc", Span())
NER = Task("ner", Tag(("O", "B-X")))
SWAG = Task("completion", Choose(2))


JUDGED = {  # task, logits, labels (unlabelled ones are left out), loss, number of labels
    "classes by cross-entropy": (
        *(NLI, torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [1.0, 1.0, 1.0]]))),
        *(torch.tensor([0, 2, -100]), -math.log(0.5) - math.log(0.8), 2),
    ),
    "numbers by the square, in units of the range": (
        *(SIMILARITY, torch.tensor([[1.0], [4.5], [7.0]])),
        *(torch.tensor([3.0, 4.0, -100.0]), (2**2 + 0.5**2) / 5**2, 2),
    ),
    "tags by the word": (
        *(NER, torch.log(torch.tensor([[[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]]))),
        *(torch.tensor([[-100, 1, 0]]), -math.log(0.8) - math.log(0.9), 2),
    ),
    "choices by the question": (
        *(SWAG, torch.log(torch.tensor([[0.25, 0.75], [0.5, 0.5]]))),
        *(torch.tensor([1, -100]), -math.log(0.75), 1),
    ),
}


@pytest.mark.parametrize("case", JUDGED)
def test_losses_by_hand(case):
    task, logits, labels, expected, known = JUDGED[case]
    total, count = label_loss(task, logits, {"labels": labels})
    assert_close(total, torch.tensor(expected))
    assert count == known


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
    own = replace(NLI, head="examples.extension.my_road_parts:MeanPooling")  # as if not all is used
    assert Supervised(MultitaskModel(model.encoder, [own]), one_dataset=True).sparse
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


PAIR, SCORE = Task("pair", Classify(("a", "b"))), Task("score", Regress(0, 5))


class Fixed(nn.Module):
    """A model whose logits are given."""

    def __init__(self, task: Task, logits: torch.Tensor) -> None:
        super().__init__()
        self.tasks = {task.name: task}
        self.encoder = nn.Identity()
        self.heads = nn.ModuleDict()
        self.logits = nn.Parameter(logits)

    def states(self, batch):
        return SimpleNamespace(last_hidden_state=None)

    def read(self, hidden, batch):
        return self.logits


def batch(task: Task, soft: torch.Tensor, *, keep: torch.Tensor | None = None, **gold: object):
    ones = torch.ones(len(soft), soft.shape[-1] if task is MRC else 3, dtype=torch.long)
    if keep is None:
        keep = torch.ones(soft.shape[: 2 if task is MRC else 1], dtype=torch.bool)
    shared = {"task": task.name, "dataset": "d", "soft_logits": soft, "kd_keep": keep}
    return shared | {"input_ids": ones, "attention_mask": ones, "token_type_ids": ones} | gold


def terms(task, logits, soft, *, kd_weight=0.5, temperature=2.0, **more):
    weight = Schedule("constant", kd_weight)
    objective = Supervised(Fixed(task, logits), kd_weight=weight, temperature=temperature)
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


def test_question_and_padding_have_no_say_in_a_span():
    logits = torch.zeros(1, 2, 5)
    soft = torch.zeros(1, 2, 5)
    soft[..., [1, -1]] = 50.0
    gold = {"start_positions": torch.tensor([2]), "end_positions": torch.tensor([3])}
    gold |= {"token_type_ids": torch.tensor([[0, 0, 1, 1, 0]])}
    made = terms(MRC, logits, soft, attention_mask=torch.tensor([[1, 1, 1, 1, 0]]), **gold)
    assert made["d_soft"].total.item() == pytest.approx(0, abs=1e-6)


def test_an_example_without_gold_still_learns_from_the_teachers():
    logits = torch.zeros(2, 2)
    made = terms(PAIR, logits, torch.tensor([[4.0, 0.0]] * 2), labels=torch.tensor([0, -100]))
    assert made["d"].count.item() == 1
    assert made["d_soft"].count.item() == 2
    alone = terms(PAIR, logits[:1], torch.tensor([[4.0, 0.0]]), labels=torch.tensor([-100]))
    assert alone["d_soft"].count.item() == 1
    assert made["d_soft"].total.item() == pytest.approx(2 * alone["d_soft"].total.item())


def test_annealed_weights_follow_the_fraction_and_the_gradient_is_that_to_the_mixed_target():
    """BAM's own form: target = f * onehot + (1 - f) * teacher."""
    fixed = Fixed(PAIR, torch.tensor([[0.3, -0.2], [1.0, 0.5]]))
    objective = Supervised(fixed, kd_weight=Schedule("linear", 0.5), temperature=1.0)
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
def pair(tmp_path):
    """A student, and the directory of a teacher of the very same weights."""
    torch.manual_seed(0)
    teacher = ElectraForSequenceClassification(config_of(32))
    teacher.save_pretrained(tmp_path)
    student = ElectraModel(config_of(32))
    student.load_state_dict(teacher.electra.state_dict())
    return MultitaskModel(student, [PAIR]), tmp_path


@pytest.fixture
def soft_batch(batch):
    size = len(batch["input_ids"])
    soft = {"soft_logits": torch.zeros(size, 2), "kd_keep": torch.ones(size, dtype=torch.bool)}
    labels = torch.zeros(size, dtype=torch.long)
    return batch | {"task": "pair", "dataset": "d", "labels": labels} | soft


def matched(pair, **options) -> Supervised:
    model, directory = pair
    attentions = options.get("attention_weight", 0) > 0
    teacher = HiddenStatesTeacher(directory, attentions=attentions)
    return Supervised(model, matching=StateMatching(model.encoder, teacher, **options))


def test_a_copy_of_its_teacher_has_nothing_to_learn_from_it(pair, soft_batch):
    made = matched(pair, hidden_weight=0.5, attention_weight=2.0)(soft_batch).terms
    assert set(made) == {"d", "d_soft", "d_hidden", "d_attention"}
    plain = Supervised(pair[0])(soft_batch).terms
    assert_close({name: made[name].total for name in plain}, {n: t.total for n, t in plain.items()})
    for name in ("d_hidden", "d_attention"):
        assert made[name].total.item() == pytest.approx(0, abs=1e-6)
        assert made[name].count.item() == soft_batch["attention_mask"].sum()
    assert (made["d_hidden"].weight, made["d_attention"].weight) == (0.25, 1.0)  # two layers each
    last = matched(pair, hidden_weight=0.5, layers="last")(soft_batch).terms
    assert last["d_hidden"].weight == 0.5


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


def test_a_narrower_student_learns_a_projection_of_its_own(pair, soft_batch, tmp_path):
    student = MultitaskModel(ElectraModel(config_of(16)), [PAIR])
    matching = StateMatching(
        student.encoder, HiddenStatesTeacher(pair[1]), hidden_weight=1.0, layers=((1, 2), (2, 2))
    )
    objective = Supervised(student, matching=matching)
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
