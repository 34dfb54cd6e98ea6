"""Text to token ids word by word, each different word only once.

Text repeats its words, and what WordPiece makes of one does not depend on its neighbours: looking
them up takes a tenth of the time of cutting them up again, and gives the very same ids.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from road_ray.data.corpus.segments import TokenIds

_MOST_WORDS = 1 << 18  # kept, about 60 MB; the frequent ones come first
_AT_ONCE = 1024
_BY_WORD = {  # parts of a tokenizer that look at nothing beyond the next space
    "normalizer": {"BertNormalizer", "Lowercase", "NFD", "NFC", "NFKD", "NFKC", "StripAccents"},
    "pre_tokenizer": {"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Punctuation", "Digits"},
}


class WordPieceCache:
    """The ids of words that were seen, for a tokenizer of the library ``tokenizers``."""

    def __init__(self, tokenizer: Any, most: int = _MOST_WORDS) -> None:
        self._tokenizer, self._most = tokenizer, most
        self._known: dict[str, bytes] = {}  # joined several times faster than lists
        told = json.loads(tokenizer.to_str())
        self._by_word, self._mark = tokenizes_by_word(told), _mark(told)

    def encode(self, texts: Sequence[str]) -> list[TokenIds]:
        """The ids of each text, without special tokens; those of the tokenizer itself."""
        if not self._by_word:
            return [array("i", ids) for ids in self._one_by_one(texts)]
        # At spaces only: what lies between others is one word here, and the tokenizer cuts it.
        split = [text.split(" ") for text in texts]
        known = self._known
        self._learn(list(set(chain.from_iterable(split)).difference(known)))
        found = [array("i", b"".join([known[word] for word in words])) for words in split]
        if len(known) > self._most:
            self._known = dict(islice(known.items(), self._most))
        return found

    def _learn(self, words: Sequence[str]) -> None:
        """A text of many words with a special token between them takes half the time of each word
        as a text.
        """
        text, number = self._mark
        marked = [word for word in words if text in word]
        self._known.update(zip(marked, self._one_by_one(marked), strict=True))
        words = [word for word in words if text not in word]
        parts = [words[first : first + _AT_ONCE] for first in range(0, len(words), _AT_ONCE)]
        joined = [f" {text} ".join(part) for part in parts]
        encoded = self._tokenizer.encode_batch_fast(joined, add_special_tokens=False)
        for part, ids in zip(parts, (one.ids for one in encoded), strict=True):
            ends = np.append(np.flatnonzero(np.array(ids) == number), len(ids)) * 4
            if len(ends) != len(part):  # a word becomes the token, as `<S>` in lower case may
                self._known.update(zip(part, self._one_by_one(part), strict=True))
                continue
            begins = np.append(0, ends[:-1] + 4)
            flat = array("i", ids).tobytes()
            cut = (flat[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True))
            self._known.update(zip(part, cut, strict=True))

    def _one_by_one(self, texts: Sequence[str]) -> list[bytes]:
        encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [array("i", one.ids).tobytes() for one in encoded]


def tokenizes_by_word(told: Mapping[str, Any]) -> bool:
    """Whether a tokenizer, as it is written down, gives words the same ids in any text."""
    spaced = any(" " in token["content"] for token in told.get("added_tokens") or ())
    parts = all(_parts(told.get(part)) <= allowed for part, allowed in _BY_WORD.items())
    return (
        told["model"].get("type") == "WordPiece"
        and parts
        and not spaced
        and _cuts(told)
        and bool(_mark(told)[0])
    )


def _mark(told: Mapping[str, Any]) -> tuple[str, int]:
    """Text and id of a special token that words do not become; no text where there is none."""
    unknown = told["model"].get("unk_token")
    for token in told.get("added_tokens") or ():
        if token["content"] == unknown:
            continue
        if token["special"] and not token["normalized"] and not token["single_word"]:
            return str(token["content"]), int(token["id"])
    return "", -1


def _cuts(told: Mapping[str, Any]) -> bool:
    """Whether its words end at spaces at all."""
    return bool(_parts(told.get("pre_tokenizer")) - {"Punctuation", "Digits"})


def _parts(part: Mapping[str, Any] | None) -> set[str]:
    if part is None:
        return set()
    inner = part.get("normalizers") or part.get("pretokenizers")
    return set().union(*map(_parts, inner)) if inner else {str(part["type"])}
