"""Short reviews with a polarity: negation, contrast and concession decide as often as a word."""

import random

_GOOD = (
    "charming", "moving", "brilliant", "warm", "clever", "graceful", "lively", "honest",
    "tender", "gripping", "fresh", "witty", "elegant", "delightful", "powerful", "rich",
    "subtle", "vivid", "memorable", "sincere", "thrilling", "wonderful", "inspired",
    "rewarding",
)  # fmt: skip
_BAD = (
    "dull", "clumsy", "tedious", "shallow", "hollow", "lifeless", "predictable", "confused",
    "bland", "pompous", "stale", "awkward", "tiresome", "dreary", "weak", "noisy", "forced",
    "careless", "forgettable", "cold", "messy", "boring", "lazy", "pointless",
)  # fmt: skip
_MILD = (
    "long", "strange", "quiet", "simple", "dark", "busy", "slow", "loud", "serious", "short",
)  # fmt: skip
_THINGS = (
    "book", "story", "play", "novel", "comedy", "tale", "chapter", "ending", "plot",
    "dialogue", "portrait", "style", "second half", "opening", "romance", "memoir", "cast",
    "mystery",
)  # fmt: skip
_HOW = ("very ", "truly ", "quite ", "rather ", "deeply ", "", "", "", "")
_STYLES = (
    "plain",
    "double",
    "not",
    "never",
    "but",
    "though",
    "turn",
    "expected",
    "than",
    "lacks",
    "question",
    "mixed",
)
_WEIGHTS = (28, 20, 9, 5, 12, 9, 3, 3, 3, 3, 2, 7)


def rows(
    rng: random.Random, *, count: int, seen: set[str], noise: float = 0.05
) -> list[tuple[str, int]]:
    """Distinct sentences with 0 (negative) or 1 (positive); ``noise`` of the labels are wrong."""
    found: list[tuple[str, int]] = []
    while len(found) < count:
        text, good = review(rng)
        if text not in seen:
            seen.add(text)
            found.append((text, int(good != (rng.random() < noise))))
    return found


def review(rng: random.Random) -> tuple[str, bool]:
    """One sentence in the tokenised lower case of SST-2, and whether it praises."""
    good = rng.random() < 0.5
    style = rng.choices(_STYLES, _WEIGHTS)[0]
    return _write(style, good, rng), good


def _word(good: bool, rng: random.Random) -> str:
    return rng.choice(_GOOD if good else _BAD)


def _an(words: str) -> str:
    return ("an " if words[0] in "aeiou" else "a ") + words


def _praise(good: bool, rng: random.Random) -> str:
    """A clause of that polarity about one thing; by a negated opposite now and then."""
    thing = rng.choice(_THINGS)
    if rng.random() < 0.15:
        negation = rng.choice(("not", "never", "hardly", "by no means"))
        return f"the {thing} is {negation} {_word(not good, rng)}"
    return f"the {thing} is {rng.choice(_HOW)}{_word(good, rng)}"


def _write(style: str, good: bool, rng: random.Random) -> str:
    thing, how = rng.choice(_THINGS), rng.choice(_HOW)
    yes, no = _word(good, rng), _word(not good, rng)
    match style:
        case "plain":
            return f"{_an(how + yes)} {thing} , {rng.choice(_MILD)} and {_word(good, rng)} ."
        case "double":
            return f"this {rng.choice(_MILD)} {thing} is {yes} and {_praise(good, rng)} ."
        case "not":
            return (
                f"the {thing} is {rng.choice(('not', 'hardly', 'far from', 'anything but'))} {no} ."
            )
        case "never":
            when = rng.choice(("never", "not for a moment", "at no point"))
            return f"{when} {no} , this {thing} is {rng.choice(_MILD)} ."
        case "but":
            return f"{_praise(not good, rng)} , but {_praise(good, rng)} ."
        case "though":
            start = rng.choice(("although", "though", "even if", "while"))
            return f"{start} {_praise(not good, rng)} , {_praise(good, rng)} ."
        case "turn":
            return f"what begins as {_an(no)} {thing} soon becomes {_an(yes)} one ."
        case "expected":
            return f"i expected {_an(no)} {thing} and found {_an(yes)} one ."
        case "than":
            return f"more {yes} than {no} , in spite of its {rng.choice(_MILD)} {thing} ."
        case "lacks":
            verb = "without" if good else "with"
            return f"{_an(rng.choice(_MILD))} {thing} {verb} a single {_word(False, rng)} page ."
        case "mixed":  # readers do not agree what such a sentence says on the whole
            ends = [yes, no] if rng.random() < 0.5 else [no, yes]
            return f"the {thing} is {how}{ends[0]} and the {rng.choice(_THINGS)} is {ends[1]} ."
        case _:
            return f"who would call this {thing} {no} ? it is {rng.choice(_MILD)} and {yes} ."
