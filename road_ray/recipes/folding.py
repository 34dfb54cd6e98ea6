"""Teachers of folds in a distillation: how many folds there are, and who answers for which row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.data.folds import row_folds
from road_ray.data.sources import Split
from road_ray.distillation.ensemble import Ensemble
from road_ray.distillation.folded import FoldedEnsemble
from road_ray.errors import ConfigError

if TYPE_CHECKING:
    from road_ray.distributed.asking import ActorEnsemble
    from road_ray.recipes.asking import Asking


def listed(path: Path, key: str = "distillation.teachers") -> tuple[list[str], int]:
    """The directories in a ``teachers.json``, fold after fold, and the number of folds (1: none).
    Relative ones are below the file's own, or else below the working directory.

    Raises ``ConfigError`` for a file that is no such list.
    """
    try:
        listing = json.loads(path.read_text(encoding="utf-8"))
        teachers = [
            (int(one.get("fold", 0)), _beside(path, str(one["directory"])))
            for one in listing["teachers"]
        ]
        num_folds = int(listing.get("num_folds", 1))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{key} = {path}: no list of teachers: {error!r}\n"
            "  allowed: a teachers.json as `road teachers` writes it, or the directories themselves"
        ) from error
    teachers.sort(key=lambda one: one[0])  # stable: the order within a fold is kept
    counts = [sum(fold == number for fold, _ in teachers) for number in range(num_folds)]
    if len(set(counts)) > 1 or sum(counts) != len(teachers):
        raise ConfigError(
            f"{key} = {path}: {counts} teachers of {num_folds} folds, "
            f"{len(teachers)} in all\n  allowed: equally many of each fold"
        )
    return [directory for _, directory in teachers], num_folds


def _beside(path: Path, named: str) -> str:
    near = path.parent / named
    return str(near) if near.is_dir() else named


def named_in(teachers: Sequence[str], key: str = "distillation.teachers") -> tuple[list[str], int]:
    """The teachers that are named, by themselves or in a ``teachers.json``, and the number of their
    folds: 1 where they have seen all of the data.
    """
    if len(teachers) == 1 and teachers[0].endswith(".json"):
        return listed(Path(teachers[0]).expanduser(), key)
    return list(teachers), 1


def num_folds(teachers: Sequence[str]) -> int:
    """Of how many folds the named teachers are."""
    return named_in(teachers)[1]


@contextmanager
def answering(
    asking: Asking, count: int, split: Split, actors: ActorEnsemble | None, **more: Any
) -> Iterator[Ensemble]:
    """The ensemble of ``asking`` for the rows of ``split``; of ``count`` folds' teachers, each is
    asked only for rows that it has not seen.
    """
    with ExitStack() as stack:
        if count == 1:
            yield stack.enter_context(asking.ensemble(split.features, actors=actors, **more))
            return
        folds, members = row_folds(split, count), []
        for fold in range(count):
            some, own = asking.of_fold(fold, count), None
            if actors is not None:
                each = len(some.directories)
                own = part(actors, fold * each, (fold + 1) * each)
            one = some.ensemble(split.features, actors=own, rows=folds == fold, **more)
            members.append(stack.enter_context(one))
        yield FoldedEnsemble(members, folds)


def complete(asking: Asking, count: int, split: Split) -> bool:
    """Whether the store has all that will be asked for, so that no teacher need be started."""
    folds = row_folds(split, count)
    return all(
        asking.of_fold(fold, count).complete(split.features, folds == fold) for fold in range(count)
    )


def needs_pool(asking: Asking, count: int, split: Callable[[], Split]) -> bool:
    """Whether the driver must start the teachers: a lone worker with a store does it itself, on
    the first row that the store has not. Teachers of folds share one pool.
    """
    if asking.settings.host != "actors" or asking.settings.store is None:
        return asking.settings.host == "actors"
    if asking.workers == 0 and count == 1:
        return False
    return not complete(asking, count, split())


def part(ensemble: ActorEnsemble, first: int, beyond: int) -> ActorEnsemble:
    """Some of the teachers of a pool; they stay its own."""
    return type(ensemble)(ensemble.handles.part(first, beyond))
