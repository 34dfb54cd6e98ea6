"""Keys and values of rows in a table: a hash of the content, and logits without padding.

The key of a row is a hash of its real token ids and segments, so it does not depend on the order
and padding of the batch. For a teacher with another tokenizer it is a hash of its texts, so that
students of any tokenizer share the row.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.features.examples_and_features import Longs
from road_ray.data.task_and_dataset import Kind, Regress, Span, Tag
from road_ray.distillation.ensemble.protocol import PAD_LOGIT
from road_ray.errors import CheckpointError

KEY_BYTES = 16  # of blake2b: 10^9 rows collide with a probability of about 10^-21
_SEGMENT_SHIFT = 24  # of a segment above its token id, in 32 bits

Keys = NDArray[np.uint64]
"""``[N, 2]``: the two halves of each key."""
Values = NDArray[Any]


@dataclass(frozen=True)
class Rows:
    """Rows of a batch: their keys ``[B, 2]``, and a mask of the real positions ``[B, L]``."""

    keys: Keys
    real: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def lengths(self) -> Longs:
        """Number of real tokens of each row."""
        lengths: Longs = self.real.sum(-1, dtype=np.int64)
        return lengths


def rows_of(inputs: Mapping[str, Any]) -> Rows:
    """Return the rows of ``input_ids`` ``[B, L]`` (or ``[B, N, L]``: N choices per row), with mask
    and segments if given.
    """
    ids = _array(inputs["input_ids"]).astype(np.int32)
    mask, segments = inputs.get("attention_mask"), inputs.get("token_type_ids")
    real = np.ones(ids.shape, np.bool_) if mask is None else _array(mask) != 0
    if segments is not None:
        ids |= _array(segments).astype(np.int32) << _SEGMENT_SHIFT
    lengths = real.sum(-1, dtype=np.int64)  # of choices several a row
    tokens = ids[real].tobytes()
    ends = ids.itemsize * lengths.reshape(len(ids), -1).sum(1).cumsum()
    bounds = itertools.pairwise([0, *ends.tolist()])
    content = (n.tobytes() + tokens[i:j] for n, (i, j) in zip(lengths, bounds, strict=True))
    return Rows(_hashed(content), real.reshape(len(ids), -1))


def keys_of_texts(texts: Iterable[Sequence[str]]) -> Keys:
    """Return the keys of rows by their texts, ``[N, 2]``."""
    encoded = ([text.encode("utf-8", "surrogatepass") for text in row] for row in texts)
    return _hashed([b"".join(len(t).to_bytes(8, "little") + t for t in row) for row in encoded])


def value_type(kind: Kind) -> type[np.floating[Any]]:
    """Return the dtype of stored logits: float16 (rounding 2^-11), float32 in regression."""
    return np.float32 if isinstance(kind, Regress) else np.float16


def counts_of(kind: Kind, lengths: Longs) -> Longs:
    """Return the size of a teacher's unpadded answer to rows of these lengths."""
    return kind.width * (lengths if isinstance(kind, Span | Tag) else np.ones_like(lengths))


def unpadded(answers: Tensor, rows: Rows, kind: Kind) -> Values:
    """Flatten one teacher's answers into one array, row after row, in the stored dtype.

    ``[B, C]``, ``[B, 2, L]`` or ``[B, L, C] -> [numbers]``. Raises ``CheckpointError`` for values
    beyond the range of float16.
    """
    values = _array(answers.float())
    limit = float(np.finfo(value_type(kind)).max)
    ragged = isinstance(kind, Span | Tag)
    flat: Values = values[_spread(rows.real, kind)] if ragged else values.ravel()
    if not (np.abs(flat).max(initial=0.0) <= limit):  # false for NaN too
        raise CheckpointError(
            f"a teacher's logits beyond {limit:g}, or not a number, cannot be kept\n"
            "  fix: distillation.answers=live, or fine-tune that teacher again"
        )
    return flat.astype(value_type(kind))


def padded(answers: list[Values], rows: Rows, kind: Kind) -> Tensor:
    """Restore one teacher's answers from an array per row; padding is ``PAD_LOGIT``.
    ``-> [B, C]``, ``[B, 2, L]`` or ``[B, L, C]``, fp32.
    """
    dtype = value_type(kind)
    flat = np.concatenate([np.zeros(0, dtype), *answers])
    if not isinstance(kind, Span | Tag):
        return torch.from_numpy(flat.reshape(len(rows), kind.width)).float()
    spread = _spread(rows.real, kind)
    full = np.full(spread.shape, PAD_LOGIT, dtype)
    full[spread] = flat
    return torch.from_numpy(full).float()  # ten times as fast as NumPy's conversion


def _spread(real: NDArray[np.bool_], kind: Kind) -> NDArray[np.bool_]:
    """Return the mask of an answer's real numbers: ``[B, L] -> [B, 2, L]`` or ``[B, L, C]``."""
    size, length = real.shape
    if isinstance(kind, Span):
        return np.broadcast_to(real[:, None, :], (size, kind.width, length))
    return np.broadcast_to(real[:, :, None], (size, length, kind.width))


def _hashed(rows: Iterable[bytes]) -> Keys:
    digests = [hashlib.blake2b(row, digest_size=KEY_BYTES).digest() for row in rows]
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array
