"""The stock of words: names from a syllable grammar, plain English nouns with their families."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

PROVINCES = (
    "Norland",
    "Estmark",
    "Sudvale",
    "Westfen",
    "Highmoor",
    "Lowshire",
    "Greenholt",
    "Saltcoast",
)

CRAFTS = {
    "an artist": ("painter", "sculptor", "potter", "engraver"),
    "a musician": ("singer", "drummer", "fiddler", "organist"),
    "an author": ("poet", "novelist", "playwright"),
    "a healer": ("doctor", "nurse", "surgeon", "dentist"),
    "a seafarer": ("sailor", "captain", "fisher", "diver"),
    "a farm worker": ("shepherd", "gardener", "beekeeper", "ploughman"),
    "a builder": ("mason", "carpenter", "plumber", "roofer"),
    "a scholar": ("botanist", "historian", "astronomer", "geologist"),
}
PRODUCTS = {
    "food": ("cheese", "honey", "bread", "butter", "apples", "plums"),
    "cloth": ("wool", "silk", "linen", "velvet"),
    "metal goods": ("clocks", "bells", "knives", "lanterns"),
    "wooden goods": ("boats", "barrels", "chairs", "wagons"),
}
GENRES = {
    "a made-up story": ("novel", "fable", "romance", "comedy"),
    "a factual book": ("memoir", "biography", "atlas", "cookbook"),
}
CAUSES = {
    "the weather": ("a storm", "heavy rain", "a long drought", "lightning"),
    "a human mistake": ("a dropped candle", "a broken dam", "a careless guard", "a forged letter"),
}
HOBBIES = {
    "a quiet pastime": ("chess", "knitting", "drawing", "reading"),
    "a sport": ("rowing", "skating", "fencing", "running"),
}
SUBJECTS = {
    "a science": ("botany", "geology", "medicine", "astronomy"),
    "an art": ("music", "painting", "dance", "poetry"),
}
PRIZES = tuple(
    f"the {w} Prize" for w in ("Amber", "Silver", "Laurel", "Crystal", "Ivory", "Falcon")
)
BUILDINGS = tuple(
    f"the {colour} {thing}"
    for colour in ("Old", "White", "Red", "Stone", "Round", "Long")
    for thing in ("Bridge", "Tower", "Market", "Chapel", "Library")
)
EVENTS = ("Flood", "Fire", "Strike", "Fair", "Siege")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August",
          "September", "October", "November", "December")  # fmt: skip

_TITLE_HEADS = ("Silent", "Broken", "Golden", "Distant", "Winter", "Hidden", "Burning",
                "Lonely", "Crooked", "Secret", "Wandering", "Last", "Sleeping", "Bitter",
                "Painted", "Hollow")  # fmt: skip
_TITLE_TAILS = ("Harbour", "Garden", "River", "Orchard", "Mirror", "Letter", "Stranger",
                "Island", "Lantern", "Candle", "Forest", "Window", "Journey", "Wolf", "Crown",
                "Shepherd")  # fmt: skip

# The last letters tell the kind, so that a name carries a hint of what it names, as real names do.
_ONSETS = (
    "b",
    "br",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "k",
    "kr",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "z",
)
_VOWELS = ("a", "e", "i", "o", "u")
_CODAS = ("", "l", "n", "r", "s", "m")
_ENDINGS = {
    "woman": ("a", "ina", "ela", "ia"),
    "man": ("o", "en", "ik", "us"),
    "family": ("ovar", "sen", "mak", "elli", "ard", "itz"),
    "town": ("burg", "ton", "stad", "wick", "ford", "haven"),
    "river": ("ava", "une", "ire"),
    "mountain": ("horn", "spitz", "kar"),
    "lake": ("mere", "sola"),
}


@dataclass(frozen=True)
class Names:
    """Pools of invented names, one for each kind, without repeats across kinds."""

    woman: tuple[str, ...]
    man: tuple[str, ...]
    family: tuple[str, ...]
    town: tuple[str, ...]
    river: tuple[str, ...]
    mountain: tuple[str, ...]
    lake: tuple[str, ...]
    title: tuple[str, ...]


def invent(rng: random.Random, counts: dict[str, int], taken: set[str]) -> Names:
    """Names by syllable grammar, ``counts[kind]`` each; ``taken`` is avoided and extended."""
    pools = {kind: _pool(rng, kind, counts[kind], taken) for kind in _ENDINGS}
    titles = [f"The {head} {tail}" for head in _TITLE_HEADS for tail in _TITLE_TAILS]
    rng.shuffle(titles)
    return Names(**pools, title=tuple(titles))


def _pool(rng: random.Random, kind: str, count: int, taken: set[str]) -> tuple[str, ...]:
    names: list[str] = []
    while len(names) < count:
        stem = rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS)
        if rng.random() < 0.6:
            stem += rng.choice(_ONSETS)[-1] + rng.choice(_VOWELS) + rng.choice(_CODAS)
        if stem[-1] in _VOWELS and rng.choice(_ENDINGS[kind])[0] in _VOWELS:
            stem += rng.choice(("l", "n", "r", "t", "v"))
        name = (stem + rng.choice(_ENDINGS[kind])).capitalize()
        if name not in taken and len(name) <= 10:
            taken.add(name)
            names.append(name)
    return tuple(names)


def family_of(value: str, families: Mapping[str, tuple[str, ...]]) -> str:
    """The general word for a value: ``"painter" -> "an artist"``."""
    return next(name for name, members in families.items() if value in members)
