"""Words of a text for models of tags, and the entities that their tags make.

Words are split as those of CoNLL-2003, for taggers that are trained on such words. English follows
the Penn Treebank: punctuation is apart, as are ``'s`` and ``n't``; numbers, dates, hyphenated words
and abbreviations such as ``U.S.`` stay whole. In other scripts a word is a run of letters, digits
and their combining marks. Of the sentences of CoNLL-2003, joined by spaces, 0.4% of train, 0.3% of
testa and 1.2% of testb are split otherwise, most of them in tables; a split at all punctuation
differs in half of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from road_ray.data.examples import Features, TagExample
from road_ray.data.task_and_dataset import Tag
from road_ray.evaluation.metrics import OUTSIDE, predicted_tags, word_logits

_JOINERS = "\u200c\u200d\u00ad"  # within a word: zero-width non-joiner and joiner, soft hyphen
_MARK = "\u0300"  # stands for any combining mark while a text is split
_UNUSUAL = re.compile(r"[^\w\s!-~]")
_ABBREVIATED = (
    "Mr|Mrs|Ms|Dr|Prof|St|Rev|Gen|Sen|Gov|Lt|Col|Capt|Sgt|Inc|Corp|Ltd|Co|Jr|Sr|vs|etc|vol|No|"
    "Jan|Feb|Mar|Apr|Aug|Sept|Oct|Nov|Dec|Calif|Fla"
)
_CLITIC = r"['\u2019](?:s|re|ve|ll|d|m)(?!\w)"
_LETTER = rf"[\w{_MARK}]"
_WORD = re.compile(
    rf"""
      \.{{2,}} | -{{2,}} | \*{{2,}}                  # ellipses and rules
    | {_CLITIC} | n['\u2019]t(?!\w)
    | (?:[^\W\d_]\.){{2,}}(?:-{_LETTER}+)*          # U.S., U.S.-led
    | (?:{_ABBREVIATED})\.(?=\s+\S)
    | [^\W\d_]\.(?=\s+\w)                           # an initial: M. Waugh
    | ^\d{{1,3}}\.(?=\s)                            # number of a list: 1. Germany
    | [a-z]{{1,3}}\$(?=\s*\d|\s|$)                  # C$ 1.5
    | [+-]{{0,2}}\.?\d+(?:[.,:/=-]+\d+)*(?:-?{_LETTER})*(?:-(?=\s))?
    | {_LETTER}+?(?:[-/&+@.'\u2019]{_LETTER}+?)*?        # ends before n't, 's or what is no letter
      (?:(?=n['\u2019]t(?!\w)|{_CLITIC})|(?!['\u2019.&+@/-]?{_LETTER})(?:-(?=\s))?)
    | [^\s{_MARK}]{_MARK}* | {_MARK}+
    """,
    re.VERBOSE | re.IGNORECASE,
)


def words_of(text: str) -> tuple[str, ...]:
    """Return the words and punctuation marks of a text, in order; together they are all of its
    characters but white space.
    """
    plain = _UNUSUAL.sub(_marked, text)
    return tuple(text[match.start() : match.end()] for match in _WORD.finditer(plain))


def _marked(match: re.Match[str]) -> str:
    """Return the stand-in for a combining mark, which ``\\w`` does not know, else the character."""
    character = match[0]
    is_mark = unicodedata.category(character)[0] == "M" or character in _JOINERS
    return _MARK if is_mark else character


Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Sentence(TagExample):
    """Words to tag, and the text to which the character offsets refer."""

    text: str


def entities(
    kind: Tag, examples: Sequence[Any], features: Features, logits: Sequence[Floats]
) -> list[dict[str, Any]]:
    """Return the tags of each sentence's words, the scores of each label in them, and the entities
    with character offsets. Of a word that was cut off all labels have the same score.
    """
    predictions, unknown = [], np.zeros(len(kind.labels))
    for example, words in zip(examples, word_logits(features, examples, logits), strict=True):
        tags = predicted_tags(kind.labels, words)
        shares = [softmax(unknown if w is None else w.astype(np.float64)) for w in words]
        best = [0.0 if w is None else float(s.max()) for w, s in zip(words, shares, strict=True)]
        scores = dict(zip(kind.labels, np.transpose(shares).round(6).tolist(), strict=True))
        found = {"words": list(example.words), "entities": grouped(example, tags, best)}
        predictions.append({"tags": tags, "scores": scores, **found})
    return predictions


def grouped(
    example: Sentence, tags: Sequence[str], scores: Sequence[float]
) -> list[dict[str, Any]]:
    """Return the entities of IOB2 tags; an ``I-`` after another type begins an entity. Tags
    without a prefix are entities of one word each.
    """
    from seqeval.metrics.sequence_labeling import get_entities

    starts, end = [], 0
    for word in example.words:
        starts.append(example.text.index(word, end))
        end = starts[-1] + len(word)
    whole = [tag if tag == OUTSIDE or tag[:2] in ("B-", "I-") else f"B-{tag}" for tag in tags]
    found = []
    for name, first, last in get_entities(whole):
        begin, stop = starts[first], starts[last] + len(example.words[last])
        entity = {"type": name, "start": begin, "end": stop}
        entity["score"] = float(np.mean(scores[first : last + 1]))
        entity["text"] = example.text[begin:stop]
        found.append(entity)
    return found
