"""Words of a text, split as those of CoNLL-2003, for taggers that are trained on such words.

English follows the Penn Treebank: punctuation is apart, as are ``'s`` and ``n't``; numbers, dates,
hyphenated words and abbreviations such as ``U.S.`` stay whole. In other scripts a word is a run of
letters, digits and their combining marks. Of the sentences of CoNLL-2003, joined by spaces, 0.4% of
train, 0.3% of testa and 1.2% of testb are split otherwise, most of them in tables; a split at all
punctuation differs in half of them.
"""

from __future__ import annotations

import re
import unicodedata

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
