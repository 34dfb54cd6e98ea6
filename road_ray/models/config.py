"""Configuration of an encoder: family, size, dropout and initialization.

``EncoderConfig`` is the section ``encoder`` of ``road pretrain``; ``models/encoder.py`` turns it
into a Hugging Face configuration. ``Precision`` and ``Tying`` are types of fields of other
sections; ``models/precision.py`` and ``models/language_model.py`` consume
them.
"""

from typing import Literal

from pydantic import Field

from road_ray.config import Config

Precision = Literal["auto", "fp32", "bf16"]
"""Number format of matrix products. ``fp32``: full precision, without TF32. ``bf16``: autocast to
bfloat16. ``auto``: bf16 where the device is faster with it. Trained weights stay in fp32 in every
case."""

Tying = Literal["none", "embeddings", "all"]
"""Weights that the generator shares with the main encoder. ``none``: none. ``embeddings``: token,
position and type embeddings with their LayerNorm. ``all``: the whole encoder."""


Attention = Literal["auto", "eager", "sdpa", "flash_attention_2", "unpadded"]


class AttentionConfig(Config):
    """Attention implementation of the encoders that are trained."""

    attention: Attention = "auto"
    """Attention implementation of training, under its name in transformers. ``auto``: PyTorch's
    ``scaled_dot_product_attention``, and on a CPU a faster one for full attention with dropout.
    ``eager``: matrix products one by one. ``sdpa``: PyTorch's, everywhere.
    ``flash_attention_2``: the package ``flash-attn``, on NVIDIA GPUs and in bf16. ``unpadded``:
    PyTorch's row by row, for CPUs. The last two compute no padding; set them for long texts of
    different lengths. Models are saved without it."""


class EncoderConfig(AttentionConfig):
    """Architecture and size of a new encoder. Source of the defaults: ELECTRA-Small, Clark et al.
    2020, table 6.
    """

    family: Literal["electra", "bert", "albert", "init"] = "electra"
    """Architecture of the encoder. ``electra``: BERT with a linear map from
    ``encoder.embedding_size`` to ``encoder.hidden_size`` where they differ. ``bert``: without that
    map, so both sizes must be equal. ``albert``: all layers share the weights of one, which reduces
    the number of parameters but not the time of a step. ``init``: family and sizes of the model
    that ``init`` names, such as RoBERTa or DeBERTa-v3; of ``encoder`` only ``encoder.attention`` is
    then read besides."""
    layers: int = Field(12, ge=1)
    """Number of transformer layers. 12 in ELECTRA-Small and ELECTRA-Base, 24 in ELECTRA-Large."""
    hidden_size: int = Field(256, ge=8)
    """Width of the hidden states, a multiple of ``encoder.heads``. 256 in ELECTRA-Small, 768 in
    Base, 1024 in Large."""
    heads: int = Field(4, ge=1)
    """Number of attention heads of each layer. Published models use heads of size 64, that is
    ``encoder.hidden_size`` / 64."""
    intermediate_size: int = Field(1024, ge=8)
    """Inner width of the feed-forward blocks. Published models use 4 times ``encoder.hidden_size``.
    """
    embedding_size: int = Field(128, ge=8)
    """Width of the token, position and type embeddings. 128 in ELECTRA-Small; the width of the
    hidden states in Base and Large. A linear map bridges the difference, except with
    ``encoder.family`` = ``bert``."""
    max_length_tokens: int = Field(512, ge=8)
    """Number of rows of the position table: the longest row that the model can read, in tokens. It
    bounds ``data.max_length_tokens`` of pre-training and of later fine-tuning."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout probability of embeddings, of attention weights, of the output of every block and of
    heads. 0 suits short runs of tiny models, which underfit."""
    initializer_std: float = Field(0.02, gt=0, le=1)
    """Standard deviation of the truncated normal distribution of new weight matrices. 0.02 is
    BERT's value for width 768. Narrow models start to learn earlier with about 1 /
    sqrt(``encoder.hidden_size``)."""
