"""Configuration of an encoder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from road_ray.config import Config

Precision = Literal["auto", "fp32", "bf16"]
"""``auto``: bf16 where the device gains by it. Weights that train stay in fp32 whatever it is."""


Tying = Literal["none", "embeddings", "all"]


class EncoderConfig(Config):
    """Size of an encoder. Source of the defaults: ELECTRA-Small, Clark et al. 2020, table 6."""

    family: Literal["electra", "bert", "albert"] = "electra"
    """"albert": one layer's weights in all layers; with it ELECTRA is the "ALECTRA" of the seeds'
    authors. "bert": as "electra", without a map from embedding_size to hidden_size.
    """
    layers: int = Field(12, ge=1)
    hidden_size: int = Field(256, ge=8)
    heads: int = Field(4, ge=1)
    """Of size 64 in every published model."""
    intermediate_size: int = Field(1024, ge=8)
    embedding_size: int = Field(128, ge=8)
    """May differ from hidden_size; a linear map joins them."""
    max_length_tokens: int = Field(512, ge=8)
    """Rows of the position table."""
    dropout: float = Field(0.1, ge=0, lt=1)
    attention_dropout: float = Field(0.1, ge=0, lt=1)
    initializer_std: float = Field(0.02, gt=0, le=1)
    """Truncated normal. 0.02 is BERT's for width 768; narrow models leave the unigram plateau
    sooner with about 1 / sqrt(hidden_size).
    """
