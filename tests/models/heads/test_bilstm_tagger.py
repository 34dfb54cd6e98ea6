"""Tags from frozen features: what is read, what stays as it is, and that it is kept whole."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from transformers import ElectraConfig, ElectraModel

from road_ray.data.task_and_dataset import FeatureTag, Tag, Task
from road_ray.errors import CheckpointError
from road_ray.models.heads.bilstm_tagger import BiLSTMTagger
from road_ray.models.multitask import MultitaskModel, load_trained

CONFIG = ElectraConfig(
    vocab_size=30, embedding_size=8, hidden_size=16, num_hidden_layers=5, num_attention_heads=2,
    intermediate_size=16, max_position_embeddings=32,
)  # fmt: skip
LABELS = ("O", "B-PER", "I-PER")
BATCH = {
    "task": "ner",
    "input_ids": torch.randint(30, (2, 9), generator=torch.Generator().manual_seed(0)),
    "attention_mask": torch.tensor([[1] * 9, [1] * 6 + [0] * 3]),
}


@pytest.fixture
def model():
    torch.manual_seed(0)
    return MultitaskModel(ElectraModel(CONFIG), [Task("ner", FeatureTag(LABELS))])


def test_features_are_the_last_four_layers_side_by_side(model):
    states = model.encoder(BATCH["input_ids"], BATCH["attention_mask"], output_hidden_states=True)
    assert_close(model.hidden(BATCH), torch.cat(states.hidden_states[2:], -1))
    assert model.eval()(BATCH).shape == (2, 9, 3)


def test_padding_is_not_read_in_either_direction(model):
    model.eval()
    head, features = model.heads["ner"], model.hidden(BATCH)
    changed = features.clone()
    changed[1, 6:] = 99.0
    assert torch.equal(head(changed, BATCH)[1, :6], head(features, BATCH)[1, :6])
    changed = features.clone()
    changed[0, 8] += 1.0
    assert not torch.allclose(head(changed, BATCH)[0, 0], head(features, BATCH)[0, 0])


def test_the_encoder_learns_nothing_and_drops_nothing(model):
    model.train()
    assert not model.encoder.training
    model(BATCH).sum().backward()
    assert all(parameter.grad is None for parameter in model.encoder.parameters())
    assert all(parameter.grad is not None for parameter in model.heads.parameters())
    assert torch.equal(model.hidden(BATCH), model.hidden(BATCH))


def test_beside_another_head_the_encoder_goes_on_learning():
    tasks = [Task("ner", FeatureTag(LABELS)), Task("tags", Tag(LABELS))]
    model = MultitaskModel(ElectraModel(CONFIG), tasks).train()
    assert model.encoder.training
    model(BATCH).sum().backward()
    assert all(parameter.grad is None for parameter in model.encoder.parameters())
    model(BATCH | {"task": "tags"}).sum().backward()
    assert any(parameter.grad is not None for parameter in model.encoder.parameters())


def test_a_shallow_encoder_gives_the_layers_it_has():
    shallow = ElectraConfig(**CONFIG.to_dict() | {"num_hidden_layers": 2})
    model = MultitaskModel(ElectraModel(shallow), [Task("ner", FeatureTag(LABELS))])
    assert isinstance(model.heads["ner"], BiLSTMTagger)
    assert model.hidden(BATCH).shape == (2, 9, 32)


def test_it_is_kept_beside_an_encoder_that_transformers_loads(model, tmp_path):
    model.eval().export(tmp_path, "ner")
    loaded = load_trained(str(tmp_path), Task("ner", FeatureTag(LABELS))).eval()
    assert torch.equal(loaded(BATCH), model(BATCH))
    ElectraModel.from_pretrained(tmp_path)
    (tmp_path / "feature_tagger.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"data\.tag_head=features"):
        load_trained(str(tmp_path), Task("ner", FeatureTag(LABELS)))
