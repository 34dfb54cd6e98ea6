"""Feature-based tagging: a BiLSTM over the last layers of a frozen encoder.

``transformers`` has no class for it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedConfig

from road_ray.data.batching import Batch
from road_ray.models.encoder import initialize_output
from road_ray.models.heads.base import Head

FEATURE_LAYERS = 4  # the last ones, concatenated: the best of the paper's six choices
_HIDDEN, _DROPOUT = 768, 0.1  # width of both directions together


class BiLSTMTagger(Head):
    """Tagger over frozen features: ``[B, L, FEATURE_LAYERS * D] -> [B, L, width]``.

    A two-layer BiLSTM and a classifier; zeros at the padding. Source: Devlin et al. 2019,
    section 5.3 and table 7.
    """

    reads_batch = True
    feature_layers = FEATURE_LAYERS

    def __init__(self, config: PreTrainedConfig, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(
            min(FEATURE_LAYERS, config.num_hidden_layers) * config.hidden_size,
            _HIDDEN // 2,
            num_layers=2,
            batch_first=True,
            bidirectional=True,
            dropout=_DROPOUT,
        )
        self.dropout = nn.Dropout(_DROPOUT)
        self.classifier = nn.Linear(_HIDDEN, width)
        initialize_output(self.classifier)

    def forward(self, features: Tensor, batch: Batch) -> Tensor:
        real = batch["attention_mask"]
        # PyTorch has no bf16 LSTM on every device, and the LSTM is a small part of the cost.
        with torch.autocast(features.device.type, enabled=False):
            packed = pack_padded_sequence(
                features.float(), real.sum(1).cpu(), batch_first=True, enforce_sorted=False
            )
            outputs, _ = self.lstm(packed)
            hidden, _ = pad_packed_sequence(outputs, batch_first=True, total_length=real.shape[1])
            logits: Tensor = self.classifier(self.dropout(hidden))
        return logits
