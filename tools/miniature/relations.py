"""Every relation of the miniature world by name."""

from tools.miniature.grammar import Relation
from tools.miniature.people import PEOPLE
from tools.miniature.places import PLACES
from tools.miniature.things import THINGS

RELATIONS: dict[str, Relation] = {one.name: one for one in (*PEOPLE, *PLACES, *THINGS)}


def of_kind(kind: str) -> list[Relation]:
    """The relations that an entity of that kind can stand in."""
    return [relation for relation in RELATIONS.values() if relation.subject == kind]
