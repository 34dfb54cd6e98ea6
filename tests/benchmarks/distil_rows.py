"""Distillation of real rows, which differ in length: our batches, teachers and loop against
TextBrewer's distiller, fed by a ``DataLoader`` with Hugging Face's collator. All on one core.

A round is one epoch over the same rows with the same models; the batches are each contestant's own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from road_ray.data.batching import Batching, BatchStream
from road_ray.data.config import SourceConfig
from road_ray.data.loading import Split, row_features
from road_ray.data.schema import Span, Task
from road_ray.distillation.ensemble.base import Ensemble, annotate
from road_ray.distillation.ensemble.local import LocalEnsemble
from road_ray.distillation.ensemble.row_texts import RowTexts, WithTexts
from road_ray.distillation.ensemble.stored import StoredEnsemble
from road_ray.distillation.teacher_manifest import teacher_manifest
from road_ray.distillation.weighting import resolve
from road_ray.objectives.distilled import Distilled
from road_ray.objectives.supervised import Supervised
from road_ray.training.config import TrainingConfig
from tests.benchmarks import distil
from tests.benchmarks.distil import KD_WEIGHT, LOOKAHEAD, TEACHERS, TEMPERATURE
from tests.benchmarks.finetune import epoch_row
from tests.benchmarks.finetuning import Study, epochs, model_of, rows_of
from tests.benchmarks.learning import learn
from tests.benchmarks.plan import Plan, Row
from tests.benchmarks.race import Contestant, race

_RATE, _SEED = 3e-4, 0
_OTHER = "another tokenizer"  # no tokenizer has this fingerprint


def distil_rows(plan: Plan) -> list[Row]:
    """Ours in process, in actors and with a warm store, against TextBrewer and a student without
    teachers; with "texts" the teachers read as those with another tokenizer do. ``limit_share`` is
    the share of the speed that the student has without teachers.
    """
    mains = {"no teachers": no_teachers, "in process": in_process, "warm store": in_store}
    mains |= {"in process, texts": in_process_by_text}
    mains |= {"actors": in_actors, "actors, texts": in_actors_by_text}
    if find_spec("textbrewer") is None:
        plan.say("distil_rows: textbrewer is not installed, so it is left out")
        plan.say("  fix: pip install --no-deps textbrewer==0.2.1.post1")
    else:
        mains["textbrewer"] = in_textbrewer
    rows = []
    for study in plan.studies:
        told = replace(study, clock=plan.clock)
        lanes = {name: Contestant(main, told, plan.start) for name, main in mains.items()}
        timings = race(lanes, repeats=plan.few_repeats, warmup=1)
        pairs = [("in process", "no teachers"), ("warm store", "no teachers")]
        pairs += [("actors", "no teachers"), ("actors, texts", "no teachers")]
        pairs += [("in process, texts", "in process"), ("actors, texts", "actors")]
        if "textbrewer" in mains:
            pairs += [(mine, "textbrewer") for mine in ("in process", "warm store")]
        alone = timings["no teachers"].median
        for mine, peer in pairs:
            named = f"{peer}; ours {mine}, {study.dataset}"
            ours, theirs = timings[mine], timings[peer]
            rows.append(epoch_row("distil_rows", study, named, ours, theirs, alone))
    return rows


def no_teachers(study: Study, connection: Connection) -> None:
    """The student alone, learning from gold."""
    tokenizer = study.tokenizer()
    split = study.split(tokenizer)
    stream = _stream(study, split, tokenizer)
    objective = Supervised(model_of(study, split, tokenizer))
    _learn(study, connection, objective, stream, stream.since(0))


def in_process(study: Study, connection: Connection) -> None:
    """Three teachers in the student's process, asked for every batch."""

    def local(directories: list[Path], split: Split, _: Any) -> Ensemble:
        return LocalEnsemble.load(directories, split.task)

    _distil(study, connection, local, lookahead=0)


def in_process_by_text(study: Study, connection: Connection) -> None:
    """The same teachers, which read the texts as those with another tokenizer do."""

    def local(directories: list[Path], split: Split, _: Any) -> Ensemble:
        return _with_texts(
            LocalEnsemble.load(directories, split.task, student=_OTHER), study, split
        )

    _distil(study, connection, local, lookahead=0)


def in_actors(study: Study, connection: Connection) -> None:
    """Three teachers in actors, asked ahead."""
    with _cluster() as start:

        def pool(directories: list[Path], split: Split, _: Any) -> Ensemble:
            return start(directories, split.task)

        _distil(study, connection, pool, lookahead=LOOKAHEAD)


def in_actors_by_text(study: Study, connection: Connection) -> None:
    """The same teachers in actors, which read the texts."""
    with _cluster() as start:

        def pool(directories: list[Path], split: Split, _: Any) -> Ensemble:
            return _with_texts(start(directories, split.task, student=_OTHER), study, split)

        _distil(study, connection, pool, lookahead=LOOKAHEAD)


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


def in_store(study: Study, connection: Connection) -> None:
    """What three teachers said before, read back."""

    def stored(directories: list[Path], split: Split, stream: BatchStream) -> Ensemble:
        def live(members: tuple[int, ...]) -> tuple[tuple[int, ...], Ensemble]:
            chosen = [directories[member] for member in members]
            return members, LocalEnsemble.load(chosen, split.task)

        manifest = teacher_manifest(directories, split.task)
        place = directories[0].parents[1] / "store"
        opened = StoredEnsemble.open(place, manifest, split.task, live)
        batches = stream.since(0)
        for _ in range(stream.batches_per_epoch):
            opened.gather(opened.submit(next(batches)))
        opened.flush()
        return opened

    _distil(study, connection, stored, lookahead=LOOKAHEAD)


def _distil(
    study: Study,
    connection: Connection,
    ensemble_of: Callable[[list[Path], Split, BatchStream], Ensemble],
    *,
    lookahead: int,
) -> None:
    tokenizer = study.tokenizer()
    split = study.split(tokenizer)
    stream = _stream(study, split, tokenizer)
    with tempfile.TemporaryDirectory() as place:
        directories = _teachers(study, split, tokenizer, Path(place) / "teachers")
        ensemble = ensemble_of(directories, split, stream)
        student = model_of(study, split, tokenizer)
        objective = Distilled(student, kd_weight=KD_WEIGHT, temperature=TEMPERATURE)
        given = annotate(stream.since(0), ensemble, resolve("correctness"), lookahead)
        _learn(study, connection, objective, stream, given)


def _stream(study: Study, split: Split, tokenizer: Any) -> BatchStream:
    batching = Batching(study.batch_size, _SEED)
    return BatchStream(split.features, batching, pad_id=int(tokenizer.pad_token_id))


def _teachers(study: Study, split: Split, tokenizer: Any, place: Path) -> list[Path]:
    for number in range(TEACHERS):
        model_of(study, split, tokenizer, seed=number + 1).export(
            place / str(number), split.task.name
        )
        tokenizer.save_pretrained(place / str(number))
    return [place / str(number) for number in range(TEACHERS)]


def _learn(
    study: Study, connection: Connection, objective: Any, stream: BatchStream, given: Iterator[Any]
) -> None:
    def steps(_: int) -> Iterator[list[Any]]:
        begin, end = epochs(connection, study)
        while True:
            begin()
            for _ in range(stream.batches_per_epoch):
                yield [next(given)]
            end()

    learn(objective, steps, TrainingConfig(precision=study.precision), peak_lr=_RATE)


def in_textbrewer(study: Study, connection: Connection) -> None:
    """TextBrewer's ``MultiTeacherDistiller``: the plain mean of teachers in its process."""
    from torch.utils.data import DataLoader
    from transformers import DataCollatorWithPadding

    tokenizer = study.tokenizer()
    split = study.split(tokenizer)
    collator = DataCollatorWithPadding(tokenizer)
    loader = DataLoader(
        rows_of(split),
        batch_size=study.batch_size,
        shuffle=True,
        collate_fn=lambda rows: dict(collator(rows)),
    )
    torch.manual_seed(_SEED)
    with tempfile.TemporaryDirectory() as place:
        models = Path(place) / "models"
        directories = _teachers(study, split, tokenizer, models)
        model_of(study, split, tokenizer).export(models / "student", split.task.name)
        distil.textbrewer(
            [*directories, models / "student"],
            Path(place),
            _Epochs(partial(epochs, connection, study), loader),
            span=isinstance(split.task.kind, Span),
        )


class _Epochs:
    """What TextBrewer takes for a data loader; lets the referee in between two epochs."""

    def __init__(self, gates: Callable[[], Any], loader: Iterable[Any]) -> None:
        self._gates, self._loader = gates, loader

    def __iter__(self) -> Iterator[Any]:
        begin, end = self._gates()
        while True:
            begin()
            yield from self._loader
            end()
