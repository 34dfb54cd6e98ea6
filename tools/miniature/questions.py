"""Reading comprehension in the SQuAD layout, in the encyclopaedia's style and in another."""

import hashlib
import random
from typing import Any

from tools.miniature import words
from tools.miniature.language import Passage, join, paragraph, question, wrap
from tools.miniature.relations import RELATIONS, of_kind
from tools.miniature.world import Entity, Fact, World

Json = dict[str, Any]
_PER_CONTEXT = 5
_TOWN_LIKE = ("person", "town", "company", "school", "work", "event", "river", "mountain")


def squad(
    world: World, subjects: list[Entity], rng: random.Random, *, count: int, golds: int
) -> list[Json]:
    """About ``count`` questions, a third without answer; ``golds`` answers each."""
    found: list[Json] = []
    while count > 0:
        subject = rng.choice(subjects)
        blocks = [_block(world, subject, rng, golds=golds) for _ in range(2)]
        found.append({"title": subject.name.replace(" ", "_"), "paragraphs": blocks})
        count -= sum(len(block["qas"]) for block in blocks)
    return found


def _block(world: World, subject: Entity, rng: random.Random, *, golds: int) -> Json:
    passage = paragraph(_chosen(world, subject, rng), rng)
    return {"qas": _qas(world, passage, rng, golds=golds), "context": passage.text}


def _chosen(world: World, subject: Entity, rng: random.Random) -> list[Fact]:
    """Part of what is known of a subject, and part of what is known of one or two others nearby."""
    own = list(world.facts[subject].values())
    kept = rng.sample(own, max(2, len(own) * 2 // 3))
    tied = [fact.value for fact in own if isinstance(fact.value, Entity)]
    twin = rng.choice(world.of(subject.kind))
    for other in dict.fromkeys((*rng.sample(tied, min(1, len(tied))), twin)):
        known = list(world.facts[other].values())
        if other != subject:
            kept += rng.sample(known, min(3, len(known)))
    return kept


def _qas(world: World, passage: Passage, rng: random.Random, *, golds: int) -> list[Json]:
    stated = [(fact.subject, fact.relation) for fact in passage.facts]
    spans = {(fact.subject, fact.relation): (start, end) for fact, start, end in passage.spans}
    asked: list[tuple[Entity, str]] = []
    for _ in range(_PER_CONTEXT):
        absent = rng.random() < 1 / 3
        key = _unstated(world, stated, rng) if absent else rng.choice(stated)
        if key not in asked:
            asked.append(key)
    return [_qa(passage.text, *key, spans.get(key), rng, golds=golds) for key in asked]


def _unstated(
    world: World, stated: list[tuple[Entity, str]], rng: random.Random
) -> tuple[Entity, str]:
    """A question that fits the text without an answer there: other relation, bearer or entity."""
    here = list(dict.fromkeys(subject for subject, _ in stated))
    style = rng.random()
    if style < 0.7:
        subject = rng.choice(here)
        named = {"place", "school_town"}  # the name of the subject gives these away
        named |= {
            relation for _, relation in stated if relation == "spouse"
        }  # a marriage has two sides
        missing = [
            one.name
            for one in of_kind(subject.kind)
            if one.name not in named and (subject, one.name) not in stated
        ]
        told = [name for name in missing if any(relation == name for _, relation in stated)]
        pool = told if told and style < 0.3 else missing
        if pool:
            return subject, rng.choice(pool)
    subject, relation = rng.choice(stated)
    strangers = [one for one in world.of(subject.kind) if one not in here]
    return rng.choice(strangers), relation


def _qa(
    text: str, subject: Entity, relation: str, span: tuple[int, int] | None, rng: random.Random,
    *, golds: int,
) -> Json:  # fmt: skip
    asked = question(subject.name, relation, rng)
    answers = _golds(text, *span, rng, golds) if span else []
    return {
        "question": asked,
        "id": _id(text, asked),
        "answers": answers,
        "is_impossible": not answers,
    }


def _golds(text: str, start: int, end: int, rng: random.Random, count: int) -> list[Json]:
    """The answer as several readers mark it: with or without article, first name, preposition."""
    marks = [(start, end)]
    if text[start:end].lower().startswith(("the ", "a ")):
        marks.append((start + text[start:end].index(" ") + 1, end))
    if " " in text[start:end] and text[start:end].istitle():
        marks.append((text.rindex(" ", start, end) + 1, end))
    if text[max(0, start - 4) : start] in (" in ", " of "):
        marks.append((start - 3, end))
    found = [marks[0], *(rng.choice(marks) for _ in range(count - 1))]
    return [{"text": text[a:b], "answer_start": a} for a, b in found]


def _id(text: str, asked: str) -> str:
    return hashlib.md5(f"{asked}\n{text}".encode(), usedforsecurity=False).hexdigest()[:24]


def answerable(articles: list[Json]) -> list[Json]:
    """The same articles in the layout of SQuAD 1.1: only questions with an answer, no flag."""
    found = []
    for article in articles:
        blocks = [
            {"context": block["context"], "qas": _plain(block["qas"])}
            for block in article["paragraphs"]
        ]
        blocks = [block for block in blocks if block["qas"]]
        if blocks:
            found.append({"title": article["title"], "paragraphs": blocks})
    return found


def _plain(qas: list[Json]) -> list[Json]:
    return [
        {"id": qa["id"], "question": qa["question"], "answers": qa["answers"]}
        for qa in qas
        if qa["answers"]
    ]


def dispatches(world: World, rng: random.Random, *, count: int) -> list[Json]:
    """Out of domain: longer dispatches, diaries, dialogues with their own words and questions."""
    found: list[Json] = []
    while count > 0:
        told = [rng.choice(world.of(kind)) for kind in rng.sample(_TOWN_LIKE, 3)]
        passage = rng.choice((_report, _diary, _dialogue))(
            [_some(world, one, rng) for one in told], rng
        )
        facts = rng.sample(passage.spans, min(_PER_CONTEXT, len(passage.spans)))
        qas = [_wondered(passage.text, fact, (start, end), rng) for fact, start, end in facts]
        found.append(
            {"title": passage.text[:50], "paragraphs": [{"context": passage.text, "qas": qas}]}
        )
        count -= len(qas)
    return found


def _wondered(text: str, fact: Fact, span: tuple[int, int], rng: random.Random) -> Json:
    asked = question(fact.subject.name, fact.relation, rng, news=rng.random() < 0.6)
    answer = {"answer_start": span[0], "text": text[slice(*span)]}
    return {"question": asked, "id": _id(text, asked), "answers": [answer]}


def _some(world: World, subject: Entity, rng: random.Random) -> list[Fact]:
    known = list(world.facts[subject].values())
    return rng.sample(known, min(6, len(known)))


def _day(rng: random.Random) -> str:
    return f"{rng.choice(words.MONTHS)} {rng.randrange(1, 29)}"


def _report(groups: list[list[Fact]], rng: random.Random) -> Passage:
    town = next(
        (
            fact.text
            for group in groups
            for fact in group
            if RELATIONS[fact.relation].value == "town"
        ),
        "here",
    )
    parts = [paragraph(group, rng, news=True) for group in groups]
    parts[0] = wrap(f"({town.upper()}) -- {_day(rng)}. ", parts[0])
    return wrap("", join(parts, "\n\n"), " The mayor's office did not answer our letters.")


def _diary(groups: list[list[Fact]], rng: random.Random) -> Passage:
    starts = ("Dear diary, today I was told so much. ", "I could not sleep, so I went on reading. ",
              "Before breakfast my aunt came with more gossip. ")  # fmt: skip
    parts = [
        wrap(f"{_day(rng)}. {rng.choice(starts)}", paragraph(group, rng, news=True))
        for group in groups
    ]
    return join(parts, "\n\n")


def _dialogue(groups: list[list[Fact]], rng: random.Random) -> Passage:
    replies = ("Is that so?", "Who told you that?", "I can hardly believe it.", "Go on, please.")
    lines: list[Passage] = []
    for group in groups:
        for index in range(0, len(group), 2):
            lines.append(
                wrap(
                    '"',
                    paragraph(group[index : index + 2], rng, news=True),
                    '" said the old woman.',
                )
            )
            reply = rng.choice(replies)
            lines.append(Passage(f'"{reply}" {"asked" if reply[-1] == "?" else "said"} the boy.'))
    return join(lines)
