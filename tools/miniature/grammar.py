"""A relation and its sentences, in two registers.

A statement without ``{s}`` follows its subject. ``says`` and ``asks`` are the encyclopaedia's
words; ``tells`` and ``wonders`` those of dispatches, diaries and dialogues, out of domain.
"""

from collections.abc import Mapping
from dataclasses import dataclass

Families = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Relation:
    """One relation: kinds of subject and value, sentences, and broader words for values."""

    name: str
    subject: str
    value: str
    says: tuple[str, ...]
    denies: str
    asks: tuple[str, ...]
    tells: tuple[str, ...]
    wonders: tuple[str, ...]
    families: Families | None = None
    broader: str = ""


def relation(
    name: str, subject: str, value: str, says: str, denies: str, asks: str, tells: str,
    wonders: str, families: Families | None = None, broader: str = "",
) -> Relation:  # fmt: skip
    """A relation from sentences that are separated by bars."""
    return Relation(
        name, subject, value, tuple(says.split("|")), denies, tuple(asks.split("|")),
        tuple(tells.split("|")), tuple(wonders.split("|")), families, broader,
    )  # fmt: skip
