"""The encyclopaedia: one article for every entity, facts told again where they matter."""

import random

from tools.miniature import opinions
from tools.miniature.language import paragraph, question, statement
from tools.miniature.world import Entity, Fact, World

Row = dict[str, str]


def articles(
    world: World, entities: list[Entity], rng: random.Random, *, first_id: int
) -> list[Row]:
    """Rows of the Wikipedia files: id, url, title, text (paragraphs split by blank lines)."""
    rows = []
    for number, entity in enumerate(entities, start=first_id):
        title = entity.name.removeprefix("the ")
        title = title[:1].upper() + title[1:]
        url = f"http://miniature.example/wiki?curid={number}"
        text = "\n\n".join([title, *_paragraphs(world, entity, rng)])
        rows.append({"id": str(number), "url": url, "title": title, "text": text})
    return rows


def _paragraphs(world: World, entity: Entity, rng: random.Random) -> list[str]:
    own = list(world.facts[entity].values())
    rng.shuffle(own)
    lead, rest = own[:4], own[4:]
    others = _around(world, entity, rng)
    found = [paragraph(lead, rng).text]
    if rest or others:
        found.append(paragraph([*rest, *others[:5]], rng).text)
    found.append(paragraph([*rng.sample(own, min(3, len(own))), *others[5:9]], rng).text)
    if entity.kind == "work":
        found.append(" ".join(opinions.review(rng)[0] for _ in range(3)))
    if rng.random() < 0.3:
        found.append(_catechism(own, rng))
    return found


def _around(world: World, entity: Entity, rng: random.Random) -> list[Fact]:
    """What others say of the entity, and what is known of those it is tied to."""
    told = world.mentions[entity]
    told = rng.sample(told, min(4, len(told)))
    tied = [fact.value for fact in world.facts[entity].values() if isinstance(fact.value, Entity)]
    near = rng.sample(tied, min(3, len(tied)))
    for neighbour in near:
        known = list(world.facts[neighbour].values())
        told += rng.sample(known, min(2, len(known)))
    return told


def _catechism(facts: list[Fact], rng: random.Random) -> str:
    """Questions with their answers, as in a school book."""
    asked = rng.sample(facts, min(3, len(facts)))
    return " ".join(
        f"{question(fact.subject.name, fact.relation, rng)} {statement(fact, rng).text}"
        for fact in asked
    )
