"""Special tokens that a tokenizer puts around one text or between two, such as [CLS] and [SEP]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from road_ray.data.features.batch_tokenization import backend_of
from road_ray.data.features.examples_and_features import Ints
from road_ray.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True)
class SpecialTokens:
    """Ids before the first text, between two texts and behind the last: ``[CLS] a [SEP] b [SEP]``
    of BERT, ``<s> a </s></s> b </s>`` of RoBERTa.
    """

    before: Ints
    between: Ints
    after: Ints

    @property
    def count(self) -> int:
        """Number of special tokens of a row."""
        return len(self.before) + len(self.between) + len(self.after)


def special_tokens(tokenizer: PreTrainedTokenizerFast, num_texts: int) -> SpecialTokens:
    """Return the special tokens of a row of one or two texts, as the tokenizer places them.

    Raises ``ConfigError`` for a tokenizer that puts none before the text: the first position of a
    row stands for the whole row, and for "no answer".
    """
    backend_of(tokenizer)
    texts = ["a"] * num_texts
    encoded: Any = tokenizer(*texts)
    ids, texts_of = np.array(encoded["input_ids"], np.int32), encoded.sequence_ids(0)
    first = texts_of.index(0)
    last = len(texts_of) - texts_of[::-1].index(num_texts - 1)
    if first == 0:  # no post-processor: BERT's layout, if it has the tokens
        roles = (tokenizer.cls_token_id, tokenizer.sep_token_id)
        if None in roles:
            raise ConfigError(
                f"{type(tokenizer).__name__} puts no special token before a text\n"
                "  allowed: tokenizers of encoders, with [CLS] or <s> at the start of a row\n"
                "  fix: name a model of another architecture, such as bert or roberta"
            )
        cls, sep = (np.array([role], np.int32) for role in roles)
        return SpecialTokens(cls, sep[: num_texts - 1], sep)
    inner = [n for n in range(first, last) if texts_of[n] is None]
    return SpecialTokens(ids[:first], ids[inner], ids[last:])


def word_prefix(tokenizer: PreTrainedTokenizerFast) -> str:
    """Return the space that byte-level tokenizers (RoBERTa) need before a word of a sentence; empty
    for others, whose ids are the same with and without it.
    """
    plain, spaced = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("a", " a"))
    return " " if len(plain) == len(spaced) and plain != spaced else ""
