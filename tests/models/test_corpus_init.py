"""Starts for small budgets: counts by hand, products that follow company, heads that look aside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import ElectraForMaskedLM

from road_ray.data.corpus.memory_mapped_corpus import Corpus, OpenShard
from road_ray.models.config import EncoderConfig
from road_ray.models.corpus_init import (
    attend_to_neighbours,
    cooccurrence_embeddings,
    log_frequencies,
    open_paths,
    sinusoidal_positions,
    start_from_corpus,
)
from road_ray.models.encoder import hugging_face_config, initialize

STD = 0.1


def corpus_of(rows: list[list[int]]) -> Corpus:
    tokens = np.array([token for row in rows for token in row], dtype=np.int32)
    bounds = np.cumsum([0] + [len(row) for row in rows])
    firsts = np.array([len(row) for row in rows], dtype=np.int32)
    return Corpus(Path("-"), (OpenShard(tokens, bounds, firsts),), np.array([0, len(rows)]), {})


@pytest.fixture
def model() -> ElectraForMaskedLM:
    torch.manual_seed(0)
    size = EncoderConfig(
        layers=2, hidden_size=64, heads=2, intermediate_size=64, embedding_size=64,
        max_length_tokens=64, initializer_std=STD,
    )  # fmt: skip
    built = ElectraForMaskedLM(hugging_face_config(size, 30))
    initialize(built, STD)
    return built


def test_frequencies_are_counted_with_one_half_more_and_without_special_tokens():
    corpus = corpus_of([[0, 2, 2, 3], [0, 3, 2]])
    expected = np.log(np.array([0.5, 0.5, 3.5, 2.5]) / 7.0)
    np.testing.assert_allclose(log_frequencies(corpus, 4, [0]).numpy(), expected, rtol=1e-6)


def test_tokens_of_the_same_company_get_like_embeddings_and_rows_do_not_mix():
    rng = np.random.default_rng(0)
    rows = [list(rng.permutation([2, 3, 4, 5])) for _ in range(200)]
    rows += [list(rng.permutation([6, 7, 8, 9])) for _ in range(200)]
    table = cooccurrence_embeddings(corpus_of(rows), 10, 4, [0, 1])
    product = (table @ table.T).numpy()
    assert table.std() == pytest.approx(1.0, abs=0.1)
    assert product[2, 3] > 1.0
    assert abs(product[2, 7]) < 0.1  # only neighbours in the concatenation, never in a row


def test_each_head_of_the_first_layer_starts_with_its_neighbour(model):
    sinusoidal_positions(model.electra, STD)
    attend_to_neighbours(model.electra)
    words = torch.zeros(1, 64, dtype=torch.long)  # all alike: only positions tell
    with torch.no_grad():
        hidden = model.electra.embeddings(words)
        attention = model.electra.encoder.layer[0].attention.self
        query, key = (
            part(hidden).view(64, 2, 32).transpose(0, 1)
            for part in (attention.query, attention.key)
        )
        weights = (query @ key.transpose(1, 2) / 32**0.5).softmax(-1)
    inside = torch.arange(10, 50)
    for head, step in enumerate((-1, 1)):
        mean = {
            apart: float(weights[head, inside, inside + apart].mean()) for apart in range(-5, 6)
        }
        # A table of 64 positions is coarse: the heads part to their sides, near the middle.
        assert mean[step] > max(mean[-step], 0.15)  # 1/64 at random
        assert sum(mean[apart] for apart in range(-3, 4)) > 0.8


def test_attention_hands_on_half_of_what_it_sees(model):
    open_paths(model.electra)
    for layer in model.electra.encoder.layer:
        product = layer.attention.output.dense.weight @ layer.attention.self.value.weight
        torch.testing.assert_close(product, 0.5 * torch.eye(64), atol=1e-5, rtol=0)


def test_a_token_that_is_not_masked_is_predicted_at_once_and_special_tokens_keep_their_rows(model):
    rng = np.random.default_rng(0)
    corpus = corpus_of([[0, *map(int, 4 + rng.integers(0, 26, 14)), 1] for _ in range(300)])
    special = [0, 1, 2, 3]
    sinusoidal_positions(model.electra, STD)
    open_paths(model.electra)
    before = model.electra.embeddings.word_embeddings.weight[special].clone()
    start_from_corpus(model, corpus, special, STD)
    assert torch.equal(model.electra.embeddings.word_embeddings.weight[special], before)
    ids = torch.tensor(np.array([corpus.row(index) for index in range(40)]), dtype=torch.long)
    with torch.no_grad():
        output = model.eval()(input_ids=ids).logits.argmax(-1)
    right = (output == ids)[:, 1:-1].float().mean()
    assert right > 0.5  # 1/26 at random
