"""Facts to English: clauses, sentences and paragraphs that know where each value stands."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tools.miniature.relations import RELATIONS
from tools.miniature.world import Entity, Fact

_OPENERS = ("According to the records, ", "As far as is known, ", "It is said that ", "In fact, ",
            "As many books tell, ", "Without any doubt, ")  # fmt: skip
_NEWS_OPENERS = ("Neighbours whispered that ", "To our surprise, ", "Our man swears that ",
                 "Believe it or not, ", "We also heard that ", "Oddly enough, ")  # fmt: skip
_CLOSERS = (
    ", as everybody in the province knows",
    ", and this is still remembered today",
    ", or so the story goes",
    ", as can be read in the old letters",
    ", which was much talked about at the time",
    ", as a stone in the market square still tells",
    ", and nobody has ever doubted it",
    ", to the joy of friends and family",
)
_NEWS_CLOSERS = (
    ", or I will eat my hat",
    ", and what a noise it made",
    ", if our source can be trusted",
    ", and the whole street was talking",
    ", but please tell no one",
)


@dataclass(frozen=True)
class Passage:
    """Text, and for every fact told in it where its value stands: ``text[start:end]``."""

    text: str
    spans: tuple[tuple[Fact, int, int], ...] = ()

    def shifted(self, by: int) -> tuple[tuple[Fact, int, int], ...]:
        return tuple((fact, start + by, end + by) for fact, start, end in self.spans)

    @property
    def facts(self) -> list[Fact]:
        return [fact for fact, _, _ in self.spans]


def join(parts: Sequence[Passage], between: str = " ") -> Passage:
    """Passages one after the other, positions kept."""
    text, spans = "", list[tuple[Fact, int, int]]()
    for part in parts:
        text += between if text else ""
        spans += part.shifted(len(text))
        text += part.text
    return Passage(text, tuple(spans))


def wrap(before: str, middle: Passage, after: str = "") -> Passage:
    """A passage with text put before and after it."""
    return Passage(before + middle.text + after, middle.shifted(len(before)))


def fill(template: str, mention: str, value: str) -> tuple[str, int]:
    """A template with its subject and value, and where the value starts."""
    if template.startswith("{o}"):
        value_first = value
        return value_first + template[3:].replace("{s}", mention), 0
    if "{s}" not in template:
        template = "{s} " + template
    before, _, after = template.partition("{o}")
    if before.endswith(" a ") and value[0] in "aeiou":
        before = before[:-1] + "n "
    before = before.replace("{s}", mention)
    return before + value + after.replace("{s}", mention), len(before)


def clause(fact: Fact, mention: str, template: str) -> Passage:
    """One fact without capital and full stop."""
    text, start = fill(template, mention, fact.text)
    return Passage(text, ((fact, start, start + len(fact.text)),))


def finish(part: Passage, end: str = ".") -> Passage:
    """A sentence: first letter raised, full stop added."""
    return Passage(part.text[:1].upper() + part.text[1:] + end, part.spans)


def templates(fact: Fact, *, news: bool = False, leading: bool = False) -> list[str]:
    """The statements for a fact; ``leading`` keeps those that begin with their subject."""
    relation = RELATIONS[fact.relation]
    found = [*relation.tells, *relation.says[:1]] if news else list(relation.says)
    return [one for one in found if "{s}" not in one] if leading else found


def statement(
    fact: Fact, rng: random.Random, *, mention: str | None = None, news: bool = False
) -> Passage:
    """One fact as a sentence that names its subject unless ``mention`` says otherwise."""
    template = rng.choice(templates(fact, news=news, leading=mention in ("it", "he", "she")))
    part = clause(fact, mention or fact.subject.name, template)
    style = rng.random()
    if style < 0.15 and not template.startswith("The "):
        part = wrap(rng.choice(_NEWS_OPENERS if news else _OPENERS), part)
    elif style < 0.35:
        part = wrap("", part, rng.choice(_NEWS_CLOSERS if news else _CLOSERS))
    return finish(part)


def pair(
    first: Fact, second: Fact, mention: str, rng: random.Random, *, news: bool = False
) -> Passage:
    """Two facts of one subject in one sentence: coordinated, or one in a relative clause."""
    one = rng.choice(templates(first, news=news, leading=True))
    two = rng.choice(templates(second, news=news, leading=True))
    subject = first.subject
    who = "who" if subject.kind == "person" else "which"
    style = rng.randrange(4 if mention not in ("it", "he", "she") else 3)
    if style == 3:
        inner = clause(first, f"{mention}, {who}", one)
        return finish(join([inner, _predicate(second, two)], ", "))
    if style == 2:
        return finish(
            join([clause(first, mention, one), clause(second, subject.pronoun, two)], ", and ")
        )
    return finish(join([clause(first, mention, one), _predicate(second, two)], " and "))


def _predicate(fact: Fact, template: str) -> Passage:
    full = clause(fact, "", template)
    return Passage(full.text[1:], full.shifted(-1))


def paragraph(facts: Sequence[Fact], rng: random.Random, *, news: bool = False) -> Passage:
    """Facts in order as prose: names first, then pronouns while the subject stays the same."""
    parts: list[Passage] = []
    last: Entity | None = None
    index = 0
    while index < len(facts):
        fact = facts[index]
        mention = _mention(fact.subject, fact.subject == last, rng)
        follows = index + 1 < len(facts) and facts[index + 1].subject == fact.subject
        if follows and rng.random() < 0.45:
            parts.append(pair(fact, facts[index + 1], mention, rng, news=news))
            index += 2
        else:
            parts.append(statement(fact, rng, mention=mention, news=news))
            index += 1
        last = fact.subject
    return join(parts)


def _mention(subject: Entity, again: bool, rng: random.Random) -> str:
    if not again:
        return subject.name
    return rng.choice((subject.short, *[subject.pronoun] * 4))


def question(subject: str, relation: str, rng: random.Random, *, news: bool = False) -> str:
    """A question after the value of a relation."""
    forms = RELATIONS[relation].wonders if news else RELATIONS[relation].asks
    text = rng.choice(forms).replace("{s}", subject)
    return text[:1].upper() + text[1:]
