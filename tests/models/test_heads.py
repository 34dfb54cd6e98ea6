"""Heads against those of transformers, and by hand: standard ones, joint spans, SAN."""

import logging

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers import AutoModel, BertConfig, ElectraModel

from road_ray.data.task_and_dataset import Choose, Classify, JointSpan, Reason, Span, Tag, Task
from road_ray.errors import CheckpointError
from road_ray.models import heads
from road_ray.models.heads import BEAM, STEPS, JointSpanHead, StochasticAnswerNetwork, build_head
from road_ray.models.multitask import MultitaskModel, load_trained
from tests.tiny_encoder import small_config

CONFIG = small_config(hidden_dropout_prob=0.0)
SMALLEST = small_config(
    vocab_size=30, hidden_size=16, num_hidden_layers=1, max_position_embeddings=32
)


@pytest.mark.parametrize("kind", [Classify(("a", "b")), Span(), Tag(("O", "B-X")), Choose(2)])
@pytest.mark.parametrize(
    ("config", "least", "most"),
    [
        (CONFIG, 0.04, (6 / 33) ** 0.5),  # Glorot-uniform of 32 inputs and at least one output
        (BertConfig(hidden_size=32, num_attention_heads=2), 0.01, 0.04),
    ],
    ids=["electra", "bert"],
)
def test_the_last_layer_begins_as_in_the_published_code_of_its_family(kind, config, least, most):
    torch.manual_seed(0)
    *_, weight, bias = build_head(Task("t", kind), config).parameters()
    assert weight.shape[1] == 32
    assert not bias.any()
    assert least < weight.abs().max() <= most + 1e-6


TASK = Task("mrc_joint", JointSpan())


def random_head(kind, *size):
    torch.manual_seed(0)
    made = kind(SMALLEST, *size)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made.eval()


@pytest.fixture
def joint_head():
    return random_head(JointSpanHead)


JOINT_BATCH = {
    "attention_mask": torch.tensor([[1] * 30, [1] * 8 + [0] * 22]),
    "token_type_ids": torch.tensor([[0] * 4 + [1] * 26, [0] * 4 + [1] * 4 + [0] * 22]),
}


def test_the_beam_holds_the_best_starts_and_the_ends_of_each(joint_head):
    hidden = torch.randn(2, 30, 16)
    output = joint_head(hidden, JOINT_BATCH)
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
            ends = joint_head(hidden, JOINT_BATCH | gold)[place, 1].log_softmax(-1)
            assert_close(row[start:], ends[start:])
            assert not row[:start].isfinite().any()


def test_with_gold_the_end_follows_the_gold_start_and_nothing_else_changes(joint_head):
    hidden = torch.randn(2, 30, 16)
    first = joint_head(hidden, JOINT_BATCH | {"start_positions": torch.tensor([5, 5])})
    other = joint_head(hidden, JOINT_BATCH | {"start_positions": torch.tensor([6, -100])})
    assert first.shape == (2, 3, 30)
    assert_close(first[:, [0, 2]], other[:, [0, 2]])
    assert not torch.allclose(first[0, 1, 4:], other[0, 1, 4:])
    assert_close(first[:, 0].log_softmax(-1), joint_head(hidden, JOINT_BATCH)[:, 0])
    assert_close(first[:, 2, 0], joint_head(hidden, JOINT_BATCH)[:, 1, 0])


def test_no_answer_is_told_from_the_first_token_and_the_expected_start(joint_head):
    hidden = torch.randn(2, 30, 16)
    first = joint_head(hidden, JOINT_BATCH)
    expected = (first[:, 0].exp()[..., None] * hidden).sum(1)
    both = torch.cat([hidden[:, 0], expected], -1)
    by_hand = joint_head.impossible(torch.nn.functional.gelu(joint_head.impossible_dense(both)))
    assert_close(first[:, 1], by_hand.expand(2, 30))


def test_the_export_says_that_only_the_encoder_is_plain(tmp_path, caplog):
    model = MultitaskModel(ElectraModel(SMALLEST), [TASK]).eval()
    with caplog.at_level(logging.WARNING):
        model.export(tmp_path, TASK.name)
    assert "transformers has no class for the joint span head" in caplog.text
    batch = JOINT_BATCH | {"input_ids": torch.randint(30, (2, 30)), "task": TASK.name}
    read = load_trained(str(tmp_path), TASK).eval()
    plain = AutoModel.from_pretrained(tmp_path).eval()
    inputs = {name: batch[name] for name in ("input_ids", *JOINT_BATCH)}
    with torch.inference_mode():
        assert_close(read(batch), model(batch))
        assert_close(plain(**inputs).last_hidden_state, model.states(batch).last_hidden_state)
    assert set(load_file(tmp_path / "joint_span_head.safetensors")) == set(
        model.heads[TASK.name].state_dict()
    )
    (tmp_path / "joint_span_head.safetensors").unlink()
    with pytest.raises(CheckpointError, match="holds no head for task mrc_joint"):
        load_trained(str(tmp_path), TASK)


SAN_BATCH = {
    "attention_mask": torch.tensor([[1] * 9, [1] * 6 + [0] * 3]),
    "token_type_ids": torch.tensor([[0] * 4 + [1] * 5, [0] * 4 + [1] * 2 + [0] * 3]),
}


@pytest.fixture
def san_head():
    return random_head(StochasticAnswerNetwork, 3)


def test_it_gives_log_probabilities_of_both_texts_in_order_and_reads_no_padding(san_head):
    hidden = torch.randn(2, 9, 16)
    output = san_head(hidden, SAN_BATCH)
    assert_close(output.exp().sum(-1), torch.ones(2))
    changed = hidden.clone()
    changed[1, 6:] = 99.0
    assert torch.equal(san_head(changed, SAN_BATCH), output)
    for place in (1, 5):
        changed = hidden.clone()
        changed[:, place] += 1.0
        assert not torch.allclose(san_head(changed, SAN_BATCH), output)
    turned = SAN_BATCH | {"token_type_ids": 1 - SAN_BATCH["token_type_ids"]}
    assert not torch.allclose(san_head(hidden, turned), output)
    # A single text is read as both.
    alone = SAN_BATCH | {"token_type_ids": torch.zeros(2, 9, dtype=torch.long)}
    assert san_head(hidden, alone).isfinite().all()


def test_training_drops_a_tenth_of_the_steps_but_never_all(san_head, monkeypatch):
    rows = torch.zeros(20_000, 1)
    assert san_head._step_mask(rows).eq(1).all()
    san_head.train()
    mask = san_head._step_mask(rows)
    assert mask.shape == (20_000, STEPS)
    assert mask.mean() == pytest.approx(0.9, abs=0.01)
    monkeypatch.setattr(heads, "_DROPOUT", 1.0)
    assert san_head._step_mask(rows).sum(1).eq(1).all()


def test_it_is_saved_and_read_back_by_labels_and_not_taken_for_another(tmp_path):
    torch.manual_seed(0)
    task = Task("nli_answer_network", Reason(("a", "b", "c")))
    model = MultitaskModel(ElectraModel(SMALLEST), [task]).eval()
    model.export(tmp_path, task.name)
    batch = SAN_BATCH | {"input_ids": torch.randint(5, 30, (2, 9)), "task": task.name}
    assert_close(load_trained(str(tmp_path), task).eval()(batch), model(batch))
    turned = load_trained(str(tmp_path), Task(task.name, Reason(("c", "A", "b")))).eval()
    assert_close(turned(batch), model(batch)[:, [2, 0, 1]])
    with pytest.raises(CheckpointError, match="the labels of its head"):
        load_trained(str(tmp_path), Task(task.name, Reason(("a", "b", "other"))))
    with pytest.raises(CheckpointError):
        load_trained(str(tmp_path), Task("nli", Classify(("a", "b", "c"))))
    (tmp_path / "answer_network.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"fine-tune it with data.pair_head=answer_network"):
        load_trained(str(tmp_path), task)
