"""What a teacher shows of its inside, and which layer is compared with which."""

import copy

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoModel

from road_ray.distillation.hidden_state_matching import HiddenStatesTeacher, layer_map
from road_ray.errors import ConfigError
from tests.tiny_teacher import make_teacher


@pytest.mark.parametrize(
    ("student", "teacher", "layers", "expected"),
    [
        (12, 24, "uniform", [(n, 2 * n) for n in range(1, 13)]),
        (11, 22, "uniform", [(n, 2 * n) for n in range(1, 12)]),
        (3, 3, "uniform", [(1, 1), (2, 2), (3, 3)]),
        (2, 3, "uniform", [(1, 2), (2, 3)]),
        (4, 2, "uniform", [(1, 1), (2, 1), (3, 2), (4, 2)]),
        (3, 12, "last", [(3, 12)]),
        (3, 12, ((1, 2), (3, 11)), [(1, 2), (3, 11)]),
    ],
)
def test_layers_are_paired(student, teacher, layers, expected):
    assert list(layer_map(student, teacher, layers)) == expected


@pytest.mark.parametrize("layers", [(), ((0, 1),), ((1, 13),), ((4, 1),)])
def test_a_layer_that_is_not_there_is_refused(layers):
    with pytest.raises(ConfigError, match=r"matching\.layers"):
        layer_map(3, 12, layers)


def test_it_shows_the_states_of_the_plain_model_without_gradient(tmp_path):
    directory = make_teacher(tmp_path)
    ids = torch.randint(5, 24, (2, 7), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids[:, 0]}
    shown = HiddenStatesTeacher(directory, attentions=True)(batch)
    plain = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    output = plain(ids, output_hidden_states=True, output_attentions=True)
    assert_close(shown.hidden_states, output.hidden_states)
    assert_close(shown.attentions, output.attentions)
    assert not shown.hidden_states[1].requires_grad
    assert HiddenStatesTeacher(directory)(batch).attentions is None


def test_copies_of_a_student_share_it_and_choices_are_rows_of_their_own(tmp_path):
    shared = HiddenStatesTeacher(make_teacher(tmp_path))
    assert copy.deepcopy({"teacher": shared})["teacher"] is shared
    shown = shared({"input_ids": torch.randint(5, 24, (2, 3, 7))})
    assert shown.hidden_states[1].shape == (6, 7, 16)
