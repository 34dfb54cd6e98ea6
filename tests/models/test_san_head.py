"""The stochastic answer network: what it reads, what it drops, and that it is kept whole."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from transformers import ElectraConfig, ElectraModel

from road_ray.data.task_and_dataset import Classify, Reason, Task
from road_ray.errors import CheckpointError
from road_ray.models import heads
from road_ray.models.heads import STEPS, StochasticAnswerNetwork
from road_ray.models.multitask import MultitaskModel, load_trained

CONFIG = ElectraConfig(
    vocab_size=30, embedding_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=16, max_position_embeddings=32,
)  # fmt: skip
BATCH = {
    "attention_mask": torch.tensor([[1] * 9, [1] * 6 + [0] * 3]),
    "token_type_ids": torch.tensor([[0] * 4 + [1] * 5, [0] * 4 + [1] * 2 + [0] * 3]),
}


@pytest.fixture
def head():
    torch.manual_seed(0)
    made = StochasticAnswerNetwork(CONFIG, 3)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made.eval()


def test_it_gives_log_probabilities_and_reads_no_padding(head):
    hidden = torch.randn(2, 9, 16)
    output = head(hidden, BATCH)
    assert_close(output.exp().sum(-1), torch.ones(2))
    changed = hidden.clone()
    changed[1, 6:] = 99.0
    assert torch.equal(head(changed, BATCH), output)


def test_both_texts_count_and_their_order_too(head):
    hidden = torch.randn(2, 9, 16)
    output = head(hidden, BATCH)
    for place in (1, 5):
        changed = hidden.clone()
        changed[:, place] += 1.0
        assert not torch.allclose(head(changed, BATCH), output)
    turned = BATCH | {"token_type_ids": 1 - BATCH["token_type_ids"]}
    assert not torch.allclose(head(hidden, turned), output)


def test_a_single_text_is_read_as_both(head):
    alone = BATCH | {"token_type_ids": torch.zeros(2, 9, dtype=torch.long)}
    assert head(torch.randn(2, 9, 16), alone).isfinite().all()


def test_training_drops_a_tenth_of_the_steps_but_never_all(head, monkeypatch):
    rows = torch.zeros(20_000, 1)
    assert head._step_mask(rows).eq(1).all()
    head.train()
    mask = head._step_mask(rows)
    assert mask.shape == (20_000, STEPS)
    assert mask.mean() == pytest.approx(0.9, abs=0.01)
    monkeypatch.setattr(heads, "_DROPOUT", 1.0)
    assert head._step_mask(rows).sum(1).eq(1).all()


def test_it_is_saved_and_read_back_and_not_taken_for_another(tmp_path):
    torch.manual_seed(0)
    task = Task("nli_answer_network", Reason(("a", "b", "c")))
    model = MultitaskModel(ElectraModel(CONFIG), [task]).eval()
    model.export(tmp_path, task.name)
    batch = BATCH | {"input_ids": torch.randint(5, 30, (2, 9)), "task": task.name}
    assert_close(load_trained(str(tmp_path), task).eval()(batch), model(batch))
    with pytest.raises(CheckpointError):
        load_trained(str(tmp_path), Task("nli", Classify(("a", "b", "c"))))
    (tmp_path / "answer_network.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"fine-tune it with data.pair_head=answer_network"):
        load_trained(str(tmp_path), task)


def test_labels_of_a_stored_head_are_found_by_name(tmp_path):
    model = MultitaskModel(ElectraModel(CONFIG), [Task("nli", Reason(("a", "b", "c")))]).eval()
    model.export(tmp_path, "nli")
    batch = BATCH | {"input_ids": torch.randint(5, 30, (2, 9)), "task": "nli"}
    turned = load_trained(str(tmp_path), Task("nli", Reason(("c", "A", "b")))).eval()
    assert_close(turned(batch), model(batch)[:, [2, 0, 1]])
    with pytest.raises(CheckpointError, match="the labels of its head"):
        load_trained(str(tmp_path), Task("nli", Reason(("a", "b", "other"))))
