"""Cost of teachers with another tokenizer, which read texts: in process and in actors,
beside the same teachers given the student's tokens.

A round is one epoch over the same rows with the same models. Every lane computes on one core per
model; the actors need as many cores as there are teachers to show more than their own cost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from road_ray.data.config import SourceConfig
from road_ray.data.load_split import Split, row_features
from road_ray.data.task_and_dataset import Task
from road_ray.distillation.ensemble.cross_tokenizer.row_texts import RowTexts, WithTexts
from road_ray.distillation.ensemble.local_ensemble import LocalEnsemble, TeacherOptions
from road_ray.distillation.ensemble.protocol import Ensemble
from tests.benchmarks.distil import LOOKAHEAD, TEACHERS
from tests.benchmarks.distil_rows import compare, in_process, learn_from_teachers, no_teachers
from tests.benchmarks.finetuning import Study
from tests.benchmarks.plan import Plan, Row

_OTHER = TeacherOptions(student="another tokenizer")  # no tokenizer has this fingerprint


def distil_texts(plan: Plan) -> list[Row]:
    """Teachers that read texts against those that read tokens, in process and in actors."""
    mains = {"no teachers": no_teachers, "in process": in_process, "actors": in_actors}
    mains |= {"in process, texts": in_process_by_text, "actors, texts": in_actors_by_text}
    pairs = [("actors", "no teachers"), ("actors, texts", "no teachers")]
    pairs += [("in process, texts", "in process"), ("actors, texts", "actors")]
    return compare("distil_texts", plan, mains, pairs)


def in_process_by_text(study: Study, connection: Connection) -> None:
    """The same teachers, which read the texts as those with another tokenizer do."""

    def local(directories: list[Path], split: Split, _: Any) -> Ensemble:
        return _with_texts(LocalEnsemble.load(directories, split.task, _OTHER), study, split)

    learn_from_teachers(study, connection, local, lookahead=0)


def in_actors(study: Study, connection: Connection) -> None:
    """Three teachers in actors, asked ahead."""
    with _cluster() as start:

        def pool(directories: list[Path], split: Split, _: Any) -> Ensemble:
            return start(directories, split.task)

        learn_from_teachers(study, connection, pool, lookahead=LOOKAHEAD)


def in_actors_by_text(study: Study, connection: Connection) -> None:
    """The same teachers in actors, which read the texts."""
    with _cluster() as start:

        def pool(directories: list[Path], split: Split, _: Any) -> Ensemble:
            return _with_texts(start(directories, split.task, teacher=_OTHER), study, split)

        learn_from_teachers(study, connection, pool, lookahead=LOOKAHEAD)


@contextmanager
def _cluster() -> Iterator[Callable[..., Ensemble]]:
    """A cluster of our own with a core for each teacher; yields a function that starts a pool."""
    from road_ray.distributed.connection import connected
    from road_ray.distributed.teachers.pool import start_teachers

    with ExitStack() as stack:
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
        stack.enter_context(connected(num_cpus=TEACHERS + 1))

        def start(directories: list[Path], task: Task, **options: Any) -> Ensemble:
            return stack.enter_context(start_teachers(directories, task, num_cpus=1, **options))

        yield start


def _with_texts(ensemble: Ensemble, study: Study, split: Split) -> Ensemble:
    features = row_features(split, study.tokenizer(), SourceConfig())
    return WithTexts(ensemble, RowTexts(split, features))
