"""A student that is drawn to a teacher's states: by hand, and what neither padding nor copies may
change.
"""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from transformers import ElectraForSequenceClassification, ElectraModel

from road_ray.data.task_and_dataset import Classify, Task
from road_ray.distillation.hidden_state_matching import (
    HiddenStatesTeacher,
    StateMatching,
    attention_error,
    hidden_error,
)
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.distilled import Distilled, IntermediateDistilled

PAIR = Task("pair", Classify(("a", "b")))


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
    return batch | {
        "task": "pair",
        "dataset": "d",
        "labels": torch.zeros(size, dtype=torch.long),
        "soft_logits": torch.zeros(size, 2),
        "kd_keep": torch.ones(size, dtype=torch.bool),
    }


def matched(pair, **options) -> IntermediateDistilled:
    model, directory = pair
    attentions = options.get("attention_weight", 0) > 0
    teacher = HiddenStatesTeacher(directory, attentions=attentions)
    return IntermediateDistilled(model, StateMatching(model.encoder, teacher, **options))


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
    narrow = {
        name: value[1:3, :17] if name.endswith(("ids", "mask")) else value
        for name, value in soft_batch.items()
    }
    wide = {
        name: value[1:3] if name.endswith(("ids", "mask")) else value
        for name, value in soft_batch.items()
    }
    for item in (narrow, wide):
        for name in ("labels", "soft_logits", "kd_keep"):
            item[name] = soft_batch[name][1:3]
    there, here = objective(narrow).terms, objective(wide).terms
    for name in ("d_hidden", "d_attention"):
        assert there[name].total.item() > 0
        assert_close(here[name].total, there[name].total, rtol=1e-4, atol=1e-4)


def test_a_narrower_student_learns_a_projection_of_its_own(pair, soft_batch, tmp_path, sized):
    student = MultitaskModel(ElectraModel(sized(16)), [PAIR])
    matching = StateMatching(
        student.encoder, HiddenStatesTeacher(pair[1]), hidden_weight=1.0, layers=((1, 2), (2, 2))
    )
    objective = IntermediateDistilled(student, matching)
    assert {name: m.weight.shape for name, m in matching.projections.items()} == {
        "1": (32, 16),
        "2": (32, 16),
    }
    made = objective(soft_batch).terms
    made["d_hidden"].total.backward()
    assert matching.projections["1"].weight.grad.abs().sum() > 0
    assert student.encoder.embeddings.word_embeddings.weight.grad.abs().sum() > 0
    names = set(objective.state_dict())
    assert {name.split(".")[0] for name in names} == {"model", "encoder", "matching"}
    objective.export(tmp_path / "exported")
    loaded = ElectraForSequenceClassification.from_pretrained(tmp_path / "exported")
    assert loaded.config.hidden_size == 16
