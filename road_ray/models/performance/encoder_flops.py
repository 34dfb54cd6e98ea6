"""Floating-point operations of an encoder by the rules of the ELECTRA paper.

The paper's rules: each mathematical operation counts 1, a product with an m x n matrix 2 m n per
token, the backward pass as much as the forward pass, an embedding lookup as a product. Source:
google electra, flops_computation.py (science: section 2.11), with its errors, to reproduce the
published numbers.
"""

from __future__ import annotations

from road_ray.models.config import EncoderConfig

_DROPOUT, _LAYER_NORM, _ACTIVATION, _SOFTMAX = 4, 5, 8, 5
_PREDICTED_SHARE = 0.15625  # 20 of 128 positions, in BERT and here


def encoder_flops(size: EncoderConfig, vocab_size: int, length: int) -> float:
    """Return the FLOPs of embeddings and all layers for one row."""
    return size.layers * layer_flops(size, length) + _embedding_flops(size, vocab_size, length)


def layer_flops(size: EncoderConfig, length: int) -> float:
    """Return the FLOPs of one layer for one row."""
    width, inner, heads = size.hidden_size, size.intermediate_size, size.heads
    attention = 6 * width * width + 3 * width + 2 * width * length
    attention += (_SOFTMAX + _DROPOUT + 1) * length * heads + 2 * width * length
    # The released script does not multiply this LayerNorm by the width.
    attention += 2 * width * width + width + _DROPOUT * width + width + _LAYER_NORM
    feed_forward = 4 * width * inner + (_ACTIVATION + 1) * inner
    feed_forward += (2 + _DROPOUT + _LAYER_NORM) * width
    return float((attention + feed_forward) * length)


def _embedding_flops(size: EncoderConfig, vocab_size: int, length: int) -> float:
    width = size.embedding_size
    each = 2 * width * vocab_size
    each += 2 * width * (length + 2) + (2 + _LAYER_NORM + _DROPOUT) * width
    if width != size.hidden_size:
        each += 2 * size.hidden_size * width + size.hidden_size
    return float(each * length)


def word_head_flops(
    size: EncoderConfig, vocab_size: int, length: int, share: float = _PREDICTED_SHARE
) -> float:
    """Return the FLOPs of token prediction at ``share`` of one row's positions."""
    width = size.embedding_size
    each = 2 * width * vocab_size + 2 * size.hidden_size * width
    each += (1 + _ACTIVATION + _LAYER_NORM) * width + (_SOFTMAX + 2) * vocab_size
    return each * length * share


def choice_head_flops(size: EncoderConfig, candidates: int, length: int, share: float) -> float:
    """Return the FLOPs of a choice among candidates at ``share`` of one row's positions (ours)."""
    return word_head_flops(size, candidates, length, share)


def detection_head_flops(size: EncoderConfig, length: int) -> float:
    """Return the FLOPs of detection at every position of one row."""
    width = size.hidden_size
    return float((2 * width * width + (1 + _ACTIVATION + 2) * width) * length)
