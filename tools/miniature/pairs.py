"""Pairs of sentences whose labels follow from the facts: inference and paraphrase."""

import random

from tools.miniature.language import clause, finish, join, pair, question, statement
from tools.miniature.relations import RELATIONS, of_kind
from tools.miniature.words import family_of
from tools.miniature.world import Entity, Fact, World

Pair = tuple[str, str, str]
THREE_WAY = ("entailment", "contradiction", "neutral")
_SAID_BY_NAME = {"place", "school_town"}  # the name of the subject gives these away
_BOUNDED = {"born", "died"}
_CENTURIES = {
    "17": "the eighteenth century",
    "18": "the nineteenth century",
    "19": "the twentieth century",
}


def inference(
    world: World, subjects: list[Entity], rng: random.Random, *, count: int,
    seen: set[tuple[str, str]], labels: tuple[str, ...] = THREE_WAY, length: int = 2,
) -> list[Pair]:  # fmt: skip
    """Distinct (premise, hypothesis, label), labels in turn; up to ``length`` facts a premise."""
    found: list[Pair] = []
    while len(found) < count:
        known = list(world.facts[rng.choice(subjects)].values())
        told = rng.sample(known, min(rng.randint(max(1, length - 1), length), len(known)))
        label = labels[len(found) % len(labels)]
        hypothesis = _hypothesis(world, told, label, rng)
        premise = _premise(told, rng)
        if hypothesis not in ("", premise) and (premise, hypothesis) not in seen:
            seen.add((premise, hypothesis))
            found.append((premise, hypothesis, label))
    rng.shuffle(found)
    return found


def _premise(told: list[Fact], rng: random.Random) -> str:
    if len(told) == 1:
        return statement(told[0], rng).text
    rest = [statement(fact, rng, mention=fact.subject.pronoun) for fact in told[2:]]
    return join([pair(told[0], told[1], told[0].subject.name, rng), *rest]).text


def _hypothesis(world: World, told: list[Fact], label: str, rng: random.Random) -> str:
    """A sentence that must, cannot or may be true.

    Each shape serves every label, though not equally often: as in human-written pairs, the
    hypothesis alone gives a hint, never the answer.
    """
    fact = rng.choices(told, [5 if _wide(fact) else 1 for fact in told])[0]
    if label == "neutral":
        unsaid = _unsaid(world, told, fact, rng)
        return _say(unsaid, rng, wide=0.1, denied=0.08) if unsaid else ""
    other = _swapped(world, fact, rng)
    if other is None:
        return ""
    true, false = (fact, other) if label == "entailment" else (other, fact)
    if rng.random() < (0.05 if label == "entailment" else 0.55):
        return _deny(false)
    return _say(true, rng, wide=0.8 if label == "entailment" else 0.3, denied=0.0)


def _say(fact: Fact, rng: random.Random, *, wide: float, denied: float) -> str:
    style = rng.random()
    if style < denied:
        return _deny(fact)
    if style < denied + wide and _wide(fact):
        return _broader(fact)
    return statement(fact, rng).text


def _wide(fact: Fact) -> str:
    """The general word for a value, or nothing: an artist for a painter, a century for a year."""
    relation = RELATIONS[fact.relation]
    if relation.families:
        return family_of(fact.text, relation.families)
    return _CENTURIES[fact.text[:2]] if relation.value == "year" else ""


def _broader(fact: Fact) -> str:
    relation = RELATIONS[fact.relation]
    template = relation.broader or relation.says[0]
    return finish(
        clause(Fact(fact.subject, fact.relation, _wide(fact)), fact.subject.name, template)
    ).text


def _deny(fact: Fact) -> str:
    return finish(clause(fact, fact.subject.name, RELATIONS[fact.relation].denies)).text


def _unsaid(world: World, told: list[Fact], fact: Fact, rng: random.Random) -> Fact | None:
    """Something open: another relation of the subject, or the same of somebody else."""
    subject = fact.subject
    said = {one.relation for one in told}
    open_ones = [one.name for one in of_kind(subject.kind) if one.name not in said | _SAID_BY_NAME]
    if said & _BOUNDED:  # a year of death tells something of the year of birth
        open_ones = [name for name in open_ones if name not in _BOUNDED]
    if not open_ones or (rng.random() < 0.25 and fact.relation != "spouse"):
        strangers = [one for one in world.of(subject.kind) if one not in (subject, fact.value)]
        return Fact(rng.choice(strangers), fact.relation, fact.value)
    relation = rng.choices(open_ones, [1 if RELATIONS[name].families else 5 for name in open_ones])[
        0
    ]
    values = _values(world, subject, relation)
    return Fact(subject, relation, rng.choice(values)) if values else None


def _swapped(world: World, fact: Fact, rng: random.Random) -> Fact | None:
    """The same claim with a value that cannot hold, and whose general word cannot either."""
    wide = _wide(fact)
    values = [
        value
        for value in _values(world, fact.subject, fact.relation)
        if value not in (fact.value, fact.subject)
    ]
    claims = [Fact(fact.subject, fact.relation, value) for value in values]
    claims = [claim for claim in claims if not wide or _wide(claim) != wide]
    return rng.choice(claims) if claims else None


def _values(world: World, subject: Entity, relation: str) -> list[Entity | str]:
    return [fact.value for one in world.of(subject.kind) if (fact := world.get(one, relation))]


def paraphrases(
    world: World,
    subjects: list[Entity],
    rng: random.Random,
    *,
    count: int,
    seen: set[tuple[str, str]],
) -> list[Pair]:
    """Distinct (question, question, "1" or "0"); some questions are likelier doubles."""
    found: list[Pair] = []
    while len(found) < count:
        fact = rng.choice(list(world.facts[rng.choice(subjects)].values()))
        open_form = rng.random() < 0.65
        same = rng.random() < (0.2 if open_form and not _wide(fact) else 0.7)
        first, second = (_which if open_form else _whether)(world, fact, same, rng)
        if first.lower() != second.lower() and (first, second) not in seen:
            seen.add((first, second))
            found.append((first, second, str(int(same))))
    return found


def _which(world: World, fact: Fact, same: bool, rng: random.Random) -> tuple[str, str]:
    """Open questions; those that differ ask for another relation or after another bearer."""
    subject, relation = fact.subject, fact.relation
    first = question(subject.name, relation, rng)
    if not same and rng.random() < 0.75:
        relation = rng.choice([one.name for one in of_kind(subject.kind) if one.name != relation])
    elif not same:
        subject = rng.choice([one for one in world.of(subject.kind) if one != subject])
    return first, question(subject.name, relation, rng)


def _whether(world: World, fact: Fact, same: bool, rng: random.Random) -> tuple[str, str]:
    """Yes/no questions; those that differ have another value, or both names exchanged."""
    second = fact
    if not same:
        turned = isinstance(fact.value, Entity) and fact.value.kind == fact.subject.kind
        if turned and fact.relation != "spouse" and isinstance(fact.value, Entity):
            second = Fact(fact.value, fact.relation, fact.subject)
        else:
            second = _swapped(world, fact, rng) or fact
        if second == fact:
            return "", ""
    return _doubt(fact, rng), _doubt(second, rng)


def _doubt(fact: Fact, rng: random.Random) -> str:
    relation = RELATIONS[fact.relation]
    start = rng.choice(("Is it true that", "Is it correct that", "Can one say that"))
    told = clause(fact, fact.subject.name, rng.choice(relation.says)).text
    return (
        f"{start} {told[0].lower()}{told[1:]}?" if told.startswith("The ") else f"{start} {told}?"
    )
