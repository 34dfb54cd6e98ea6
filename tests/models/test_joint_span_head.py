"""ELECTRA's joint head: what its two answers share, and that it is kept whole."""

from __future__ import annotations

import logging

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers import AutoModel, ElectraConfig, ElectraModel

from road_ray.data.task_and_dataset import JointSpan, Task
from road_ray.errors import CheckpointError
from road_ray.models.heads import BEAM, JointSpanHead
from road_ray.models.multitask import MultitaskModel, load_trained

CONFIG = ElectraConfig(
    vocab_size=30, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=16, max_position_embeddings=32,
)  # fmt: skip
TASK = Task("mrc_joint", JointSpan())


@pytest.fixture
def head():
    torch.manual_seed(0)
    made = JointSpanHead(CONFIG)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made.eval()


BATCH = {
    "attention_mask": torch.tensor([[1] * 30, [1] * 8 + [0] * 22]),
    "token_type_ids": torch.tensor([[0] * 4 + [1] * 26, [0] * 4 + [1] * 4 + [0] * 22]),
}


def test_the_beam_holds_the_best_starts_and_the_ends_of_each(head):
    hidden = torch.randn(2, 30, 16)
    output = head(hidden, BATCH)
    assert output.shape == (2, 2 + BEAM, 30)
    assert_close(output[:, 0].exp().sum(-1), torch.ones(2))
    for place in range(2):
        # Four tokens of context and "no answer" are all that the second row may start with.
        number = [BEAM, 5][place]
        best = output[place, 0].topk(number).indices.tolist()
        firsts = [int(row.isfinite().nonzero()[0]) for row in output[place, 2 : 2 + number]]
        assert firsts == best
        assert not output[place, 2 + number :].isfinite().any()
        for row, start in zip(output[place, 2:], best, strict=False):
            gold = {"start_positions": torch.tensor([start] * 2)}
            ends = head(hidden, BATCH | gold)[place, 1].log_softmax(-1)
            assert_close(row[start:], ends[start:])
            assert not row[:start].isfinite().any()


def test_with_gold_the_end_follows_the_gold_start_and_nothing_else_changes(head):
    hidden = torch.randn(2, 30, 16)
    first = head(hidden, BATCH | {"start_positions": torch.tensor([5, 5])})
    other = head(hidden, BATCH | {"start_positions": torch.tensor([6, -100])})
    assert first.shape == (2, 3, 30)
    assert_close(first[:, [0, 2]], other[:, [0, 2]])
    assert not torch.allclose(first[0, 1, 4:], other[0, 1, 4:])
    assert_close(first[:, 0].log_softmax(-1), head(hidden, BATCH)[:, 0])
    assert_close(first[:, 2, 0], head(hidden, BATCH)[:, 1, 0])


def test_no_answer_is_told_from_the_first_token_and_the_expected_start(head):
    hidden = torch.randn(2, 30, 16)
    first = head(hidden, BATCH)
    expected = (first[:, 0].exp()[..., None] * hidden).sum(1)
    both = torch.cat([hidden[:, 0], expected], -1)
    by_hand = head.impossible(torch.nn.functional.gelu(head.impossible_dense(both)))
    assert_close(first[:, 1], by_hand.expand(2, 30))


def test_the_export_says_that_only_the_encoder_is_plain(tmp_path, caplog):
    model = MultitaskModel(ElectraModel(CONFIG), [TASK]).eval()
    with caplog.at_level(logging.WARNING):
        model.export(tmp_path, TASK.name)
    assert "transformers has no class for the joint span head" in caplog.text
    batch = BATCH | {"input_ids": torch.randint(30, (2, 30)), "task": TASK.name}
    read = load_trained(str(tmp_path), TASK).eval()
    plain = AutoModel.from_pretrained(tmp_path).eval()
    inputs = {name: batch[name] for name in ("input_ids", *BATCH)}
    with torch.inference_mode():
        assert_close(read(batch), model(batch))
        assert_close(plain(**inputs).last_hidden_state, model.hidden(batch))
    assert set(load_file(tmp_path / "joint_span_head.safetensors")) == set(
        model.heads[TASK.name].state_dict()
    )
    (tmp_path / "joint_span_head.safetensors").unlink()
    with pytest.raises(CheckpointError, match="holds no head for task mrc_joint"):
        load_trained(str(tmp_path), TASK)
