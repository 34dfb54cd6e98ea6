"""Every relation of the miniature world by name."""

from __future__ import annotations

from road_ray.data.miniature.grammar import Relation
from road_ray.data.miniature.people import PEOPLE
from road_ray.data.miniature.places import PLACES
from road_ray.data.miniature.things import THINGS

RELATIONS: dict[str, Relation] = {one.name: one for one in (*PEOPLE, *PLACES, *THINGS)}


def of_kind(kind: str) -> list[Relation]:
    """The relations that an entity of that kind can stand in."""
    return [relation for relation in RELATIONS.values() if relation.subject == kind]
