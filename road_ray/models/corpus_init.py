"""Initialization from corpus statistics, for small compute budgets.

A small post-norm model with random weights stays for millions of tokens at the unigram plateau,
because every path from a neighbouring token to a prediction begins as noise. This initialization
opens these paths; all weights stay trainable and the architecture is unchanged. It is our own
design; ``docs/results/first-light.md`` has the gain of each part.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from transformers import ElectraForMaskedLM, ElectraModel

from road_ray.data.corpus.memory_mapped_corpus import Corpus

_MAX_TOKENS = 4_000_000  # of the corpus that are counted
_WINDOW_TOKENS = 3
_CONTEXT_POWER = 0.75  # damps rare contexts (Levy, Goldberg and Dagan 2015)
_POSITIONS = 128  # to which the neighbour heads are fitted; they extend to longer rows
_NEIGHBOURS = (-1, 1, -2, 2, -3, 3, -4, 4)


def log_frequencies(corpus: Corpus, vocab_size: int, special_ids: Sequence[int]) -> Tensor:
    """Return the log relative frequency of every token, ``[V]``; add-half, special tokens at 0."""
    counts = np.full(vocab_size, 0.5)
    for shard in corpus.shards:
        counts += np.bincount(shard.tokens, minlength=vocab_size)
    counts[list(special_ids)] = 0.5
    return torch.from_numpy(np.log(counts / counts.sum())).float()


def cooccurrence_embeddings(
    corpus: Corpus, vocab_size: int, width: int, special_ids: Sequence[int]
) -> Tensor:
    """Return token embeddings ``[V, width]`` of unit deviation, from co-occurrence.

    They are the leading eigenvectors of the positive pointwise mutual information within three
    tokens, and equal those of skip-gram up to a shift. Source: Levy and Goldberg 2014.
    """
    counts = _cooccurrences(corpus, vocab_size, special_ids)
    total = counts.sum()
    sums = np.asarray(counts.sum(1)).ravel()
    context = sums**_CONTEXT_POWER
    context *= total / context.sum()
    pairs = counts.tocoo()
    information = np.log(pairs.data * total / (sums[pairs.row] * context[pairs.col]))
    positive = sparse.csr_matrix(
        (np.maximum(information, 0), (pairs.row, pairs.col)), shape=counts.shape
    )
    rank = min(width, vocab_size - 1)
    start = np.random.default_rng(0).standard_normal(vocab_size)
    vectors, values, _ = sparse.linalg.svds(positive, k=rank, v0=start)
    table = np.zeros((vocab_size, width))
    table[:, :rank] = vectors * np.sqrt(values)
    return torch.from_numpy(table / table.std()).float()


def _cooccurrences(
    corpus: Corpus, vocab_size: int, special_ids: Sequence[int]
) -> sparse.csr_matrix:
    """Return the weighted counts of token pairs within the window; symmetric ``[V, V]``."""
    shape = (vocab_size, vocab_size)
    counts = sparse.csr_matrix(shape)
    remaining = _MAX_TOKENS
    for shard in corpus.shards:
        ids = shard.tokens[:remaining].astype(np.int64)
        remaining -= len(ids)
        row = np.searchsorted(shard.bounds, np.arange(len(ids)), side="right")
        for apart in range(1, _WINDOW_TOKENS + 1):
            same_row = row[:-apart] == row[apart:]
            places = (ids[:-apart][same_row], ids[apart:][same_row])
            weight: NDArray[np.float64] = np.full(int(same_row.sum()), 1.0 / apart)
            counts = counts + sparse.coo_matrix((weight, places), shape=shape).tocsr()
        if remaining <= 0:
            break
    counted = np.ones(vocab_size)
    counted[list(special_ids)] = 0
    real = sparse.diags(counted)
    symmetric = (real @ (counts + counts.T) @ real).tocsr()
    symmetric.eliminate_zeros()
    return symmetric


@torch.no_grad()
def start_from_corpus(
    model: ElectraForMaskedLM, corpus: Corpus, special_ids: Sequence[int], std: float
) -> None:
    """Initialize output bias, token embeddings and prediction head from corpus statistics."""
    words = model.electra.embeddings.word_embeddings.weight
    vocab_size, width = words.shape
    table = cooccurrence_embeddings(corpus, vocab_size, width, special_ids) * std
    special = list(special_ids)
    table[special] = words[special]
    words.copy_(table)
    model.generator_lm_head.bias.copy_(log_frequencies(corpus, vocab_size, special_ids))
    # The residual stream reaches the product with the embeddings almost unchanged.
    dense = model.generator_predictions.dense.weight
    torch.nn.init.normal_(dense, std=0.01)
    if hasattr(model.electra, "embeddings_project"):
        dense.add_(model.electra.embeddings_project.weight.T)
    else:
        dense.diagonal().add_(1.0)


@torch.no_grad()
def sinusoidal_positions(encoder: ElectraModel, std: float) -> None:
    """Initialize the position table with sines and cosines, so that neighbours are similar from the
    first step, also at positions that short rows never train.
    """
    table = encoder.embeddings.position_embeddings.weight
    positions, width = table.shape
    angles = torch.arange(positions)[:, None] / 10_000 ** (torch.arange(0, width, 2) / width)
    waves = torch.cat([angles.sin(), angles.cos()], 1)[:, :width]
    table.copy_(waves * std * 2**0.5)  # a sine of amplitude sqrt(2) has deviation 1


@torch.no_grad()
def open_paths(encoder: ElectraModel) -> None:
    """Initialize attention to copy its inputs: the product of value and output matrices is half the
    identity. Source: after Trockman and Kolter 2023.
    """
    if hasattr(encoder, "embeddings_project"):
        torch.nn.init.orthogonal_(encoder.embeddings_project.weight)
    for layer in encoder.encoder.layer:
        width = layer.attention.self.value.weight.shape[0]
        basis = torch.linalg.qr(torch.randn(width, width))[0] * 0.5**0.5
        layer.attention.self.value.weight.copy_(basis)
        layer.attention.output.dense.weight.copy_(basis.T)


@torch.no_grad()
def attend_to_neighbours(encoder: ElectraModel, gain: float = 8.0) -> None:
    """Initialize each first-layer head to attend to one neighbour, fitted to the position table.

    ``gain`` is the neighbour's logit without the contribution of the tokens. For masked language
    models only: in a discriminator with such sharp heads, [CLS] soon attends to itself alone.
    """
    positions = _normalized_positions(encoder)
    attention = encoder.encoder.layer[0].attention.self
    size = attention.attention_head_size
    margin = min(8, len(positions) // 4)
    inside = torch.arange(margin, len(positions) - margin)
    here = positions[inside]
    subspace = torch.linalg.svd(here, full_matrices=False).Vh[:size]
    square = here.T @ here
    ridge = 1e-2 * square.diagonal().mean() * torch.eye(len(square))
    for head in range(attention.num_attention_heads):
        there = positions[inside + _NEIGHBOURS[head % len(_NEIGHBOURS)]]
        # Maps a position to its neighbour.
        shift = torch.linalg.solve(square + ridge, here.T @ there).T
        logit = (subspace @ here.T).pow(2).sum(0).mean() / size**0.5
        scale = (gain / logit) ** 0.5
        rows = slice(head * size, head * size + len(subspace))
        attention.query.weight[rows] = subspace @ shift * scale
        attention.key.weight[rows] = subspace * scale


def _normalized_positions(encoder: ElectraModel) -> Tensor:
    """Return the position table as layer 1 reads it, centred: ``[positions, D]``."""
    embeddings = encoder.embeddings
    table = embeddings.position_embeddings.weight[:_POSITIONS]
    parts = (table, embeddings.word_embeddings.weight, embeddings.token_type_embeddings.weight)
    deviation = torch.stack([part.pow(2).mean() for part in parts]).sum().sqrt()
    seen = table / deviation  # LayerNorm divides by the deviation of the sum
    if hasattr(encoder, "embeddings_project"):
        seen = encoder.embeddings_project(seen)
    centred: Tensor = seen - seen.mean(0)
    return centred
