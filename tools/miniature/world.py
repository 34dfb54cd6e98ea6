"""The world: people, places and things whose relations agree with each other everywhere."""

import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tools.miniature import words
from tools.miniature.words import Names

_COUNTS = {  # entities of each kind at size 1: together about 1,500 articles
    "person": 760, "town": 64, "company": 150, "school": 100,
    "work": 220, "river": 24, "mountain": 24, "event": 160,
}  # fmt: skip
_POOLS = {  # few names, often: a small model learns a name in some twenty sentences
    "woman": 24, "man": 24, "family": 90, "town": 64, "river": 24, "mountain": 24, "lake": 12,
}  # fmt: skip


@dataclass(frozen=True)
class Entity:
    """Somebody or something with a name; ``short`` is how a second mention may call it."""

    kind: str
    name: str
    short: str
    pronoun: str = "it"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Fact:
    """``subject`` stands in ``relation`` to ``value``; a relation has one value per subject."""

    subject: Entity
    relation: str
    value: Entity | str

    @property
    def text(self) -> str:
        return str(self.value)


@dataclass
class World:
    """All entities in order, and their facts in a fixed order."""

    names: Names
    entities: list[Entity] = field(default_factory=list)
    facts: dict[Entity, dict[str, Fact]] = field(default_factory=lambda: defaultdict(dict))
    mentions: dict[Entity, list[Fact]] = field(default_factory=lambda: defaultdict(list))

    def of(self, kind: str) -> list[Entity]:
        return [entity for entity in self.entities if entity.kind == kind]

    def add(self, entity: Entity) -> Entity:
        self.entities.append(entity)
        return entity

    def state(self, subject: Entity, relation: str, value: Entity | str) -> None:
        fact = Fact(subject, relation, value)
        self.facts[subject][relation] = fact
        if isinstance(value, Entity):
            self.mentions[value].append(fact)

    def get(self, subject: Entity, relation: str) -> Fact | None:
        return self.facts[subject].get(relation)

    def year(self, subject: Entity, relation: str, default: int = 1850) -> int:
        fact = self.get(subject, relation)
        return int(fact.text) if fact else default


def build(rng: random.Random, *, size: float, taken: set[str], known: Names | None = None) -> World:
    """A world of about ``1500 * size`` entities; half of its names come from ``known`` if given."""
    names = words.invent(rng, _scaled(_POOLS, size**0.5), taken)
    if known is not None:
        names = _blend(names, known)
    world, counts = World(names), _scaled(_COUNTS, size)
    _places(world, rng, names, counts)
    people = _people(world, rng, names, counts["person"])
    _lives(world, rng, people)
    _towns(world, rng)
    _houses(world, rng, counts)
    _works(world, rng, names, counts["work"])
    _events(world, rng, counts["event"])
    _careers(world, rng, people)
    return world


def _scaled(counts: Mapping[str, int], factor: float) -> dict[str, int]:
    return {kind: max(6, round(count * factor)) for kind, count in counts.items()}


def _blend(fresh: Names, known: Names) -> Names:
    def half(kind: str) -> tuple[str, ...]:
        new, old = getattr(fresh, kind), getattr(known, kind)
        return tuple(
            b if i % 2 and i < len(old) else a
            for i, (a, b) in enumerate(zip(new, old * 9, strict=False))
        )

    return Names(**{kind: half(kind) for kind in vars(fresh)})


def _places(world: World, rng: random.Random, names: Names, counts: dict[str, int]) -> None:
    for name in names.mountain[: counts["mountain"]]:
        mountain = world.add(Entity("mountain", f"Mount {name}", "the mountain"))
        world.state(mountain, "mountain_province", rng.choice(words.PROVINCES))
        world.state(mountain, "height", str(rng.randrange(10, 40, 3) * 100))
    mountains = world.of("mountain")
    for name in names.river[: counts["river"]]:
        river = world.add(Entity("river", f"the River {name}", "the river"))
        world.state(river, "source", rng.choice(mountains))
        world.state(river, "mouth", f"Lake {rng.choice(names.lake)}")
        world.state(river, "length", str(rng.randrange(5, 60, 5) * 10))
    rivers = world.of("river")
    for name in names.town[: counts["town"]]:
        town = world.add(Entity("town", name, "the town"))
        river = rng.choice(rivers)
        source = world.facts[river]["source"].value
        assert isinstance(source, Entity)
        world.state(town, "province", world.facts[source]["mountain_province"].text)
        world.state(town, "on_river", river)
        world.state(town, "town_founded", _year(rng, 1700, 1800))
        world.state(town, "town_product", rng.choice(_all(words.PRODUCTS)))
        world.state(town, "inhabitants", str(rng.randrange(2, 60, 5) * 500))
        world.state(town, "landmark", rng.choice(words.BUILDINGS))


def _people(world: World, rng: random.Random, names: Names, count: int) -> list[Entity]:
    seen: set[str] = set()
    people: list[Entity] = []
    while len(people) < count:
        she = rng.random() < 0.5
        family = rng.choice(names.family)
        name = f"{rng.choice(names.woman if she else names.man)} {family}"
        if name not in seen:
            seen.add(name)
            people.append(world.add(Entity("person", name, family, "she" if she else "he")))
    return people


def _lives(world: World, rng: random.Random, people: list[Entity]) -> None:
    towns = world.of("town")
    for person in people:
        born, year = rng.choice(towns), int(_year(rng, 1800, 1912))
        world.state(person, "born_in", born)
        world.state(person, "born", str(year))
        world.state(person, "craft", rng.choice(_all(words.CRAFTS)))
        world.state(person, "lives", rng.choice(towns))
        world.state(person, "hobby", rng.choice(_all(words.HOBBIES)))
        if rng.random() < 0.6:
            world.state(person, "died", _year(rng, year + 50, year + 85))
    by_craft: dict[str, list[Entity]] = defaultdict(list)
    for person in sorted(people, key=lambda one: world.year(one, "born")):
        older = by_craft[world.facts[person]["craft"].text]
        if older and rng.random() < 0.6:
            world.state(person, "master", rng.choice(older[-8:]))
        older.append(person)
    single = [person for person in people if rng.random() < 0.6]
    single.sort(key=lambda one: world.year(one, "born"))
    for one, other in zip(single[::2], single[1::2], strict=False):
        world.state(one, "spouse", other)
        world.state(other, "spouse", one)


def _towns(world: World, rng: random.Random) -> None:
    for town in world.of("town"):
        here = [fact.subject for fact in world.mentions[town] if fact.relation == "lives"]
        if here:
            world.state(town, "mayor", rng.choice(here))
    people = world.of("person")
    for mountain in world.of("mountain"):
        world.state(mountain, "climber", rng.choice(people))


def _houses(world: World, rng: random.Random, counts: dict[str, int]) -> None:
    people, towns = world.of("person"), world.of("town")
    for index in range(counts["company"]):
        founder = people[(index * 7) % len(people)]
        seat = world.facts[founder]["lives"].value
        assert isinstance(seat, Entity)
        product = rng.choice(
            (world.facts[seat]["town_product"].text, rng.choice(_all(words.PRODUCTS)))
        )
        house = ("Brothers", "Works", "Company", "Trading House")[index % 4]
        company = Entity("company", f"{founder.short} {house}", "the company")
        if company in world.facts:
            continue
        world.add(company)
        world.state(company, "founder", founder)
        world.state(company, "seat", seat)
        world.state(company, "company_founded", _year_after(world, founder, rng, 20, 48))
        world.state(company, "makes", product)
        world.state(company, "staff", str(rng.randrange(5, 90, 7) * 10))
    for index in range(counts["school"]):
        town = towns[index % len(towns)]
        school = Entity(
            "school", f"{town.name} {('College', 'Academy')[index // len(towns) % 2]}", "the school"
        )
        world.add(school)
        world.state(school, "school_town", town)
        world.state(school, "school_opened", _year(rng, 1740, 1832))
        world.state(school, "teaches", rng.choice(_all(words.SUBJECTS)))
        world.state(school, "head", rng.choice(people))


def _works(world: World, rng: random.Random, names: Names, count: int) -> None:
    authors = [
        p for p in world.of("person") if world.facts[p]["craft"].text in words.CRAFTS["an author"]
    ]
    authors = authors or world.of("person")
    for index, title in enumerate(names.title[:count]):
        author = authors[index % len(authors)]
        work = world.add(Entity("work", title, "the book"))
        world.state(work, "author", author)
        world.state(work, "published", _year_after(world, author, rng, 20, 48))
        world.state(work, "genre", rng.choice(_all(words.GENRES)))
        world.state(
            work,
            "set_in",
            rng.choice((world.facts[author]["born_in"].value, rng.choice(world.of("town")))),
        )
        world.state(work, "press", rng.choice(world.of("company")))


def _events(world: World, rng: random.Random, count: int) -> None:
    towns = world.of("town")
    places = [(town, what) for what in words.EVENTS for town in towns]
    for town, what in rng.sample(places, min(count, len(places))):
        event = world.add(Entity("event", f"the {town.name} {what}", f"the {what.lower()}"))
        world.state(event, "place", town)
        world.state(event, "happened", _year(rng, 1800, 1952))
        world.state(event, "cause", rng.choice(_all(words.CAUSES)))
        world.state(event, "hero", rng.choice(world.of("person")))
        world.state(event, "harmed", world.facts[town]["landmark"].text)


def _careers(world: World, rng: random.Random, people: list[Entity]) -> None:
    schools, companies = world.of("school"), world.of("company")
    for person in people:
        if rng.random() < 0.7:
            world.state(person, "school", rng.choice(schools))
        if rng.random() < 0.6:
            world.state(person, "employer", rng.choice(companies))
        if rng.random() < 0.5:
            world.state(person, "prize", rng.choice(words.PRIZES))


def _year(rng: random.Random, first: int, end: int) -> str:
    """A year in steps of four, so that each is met often."""
    return str(rng.randrange(first - first % 4, end, 4))


def _year_after(world: World, person: Entity, rng: random.Random, low: int, high: int) -> str:
    born = world.year(person, "born")
    return _year(rng, born + low, born + high)


def _all(families: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [value for members in families.values() for value in members]
