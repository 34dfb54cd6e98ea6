"""Distillation of real rows, which differ in length: our batches, teachers and loop against
TextBrewer's distiller, fed by a ``DataLoader`` with Hugging Face's collator. All on one core.

A round is one epoch over the same rows with the same models; the batches are each contestant's own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from road_ray.data.batching import Batching, BatchStream
from road_ray.data.load_split import Split
from road_ray.data.task_and_dataset import Span
from road_ray.distillation.annotate import annotate
from road_ray.distillation.ensemble import Ensemble, LocalEnsemble
from road_ray.distillation.weighting import resolve
from road_ray.distributed.public_ensemble import Ensemble as PublicEnsemble
from road_ray.objectives.distilled import Distilled
from road_ray.objectives.supervised import Supervised
from road_ray.training.config import TrainingConfig
from tests.benchmarks import distil
from tests.benchmarks.distil import KD_WEIGHT, LOOKAHEAD, TEACHERS, TEMPERATURE
from tests.benchmarks.finetuning import Study, model_of, rows_of
from tests.benchmarks.learning import learn
from tests.benchmarks.plan import Plan, Row, race_row
from tests.benchmarks.race import Contestant, gated

_RATE, _SEED = 3e-4, 0


def distil_rows(plan: Plan) -> list[Row]:
    """Ours in process and with a warm store, against TextBrewer and a student without teachers.

    ``limit_share`` is the share of the speed that the student has without teachers.
    """
    mains = {"no teachers": no_teachers, "in process": in_process, "warm store": in_store}
    if find_spec("textbrewer") is None:
        plan.say("distil_rows: textbrewer is not installed, so it is left out")
        plan.say("  fix: pip install --no-deps textbrewer==0.2.1.post1")
    else:
        mains["textbrewer"] = in_textbrewer
    pairs = [("in process", "no teachers"), ("warm store", "no teachers")]
    if "textbrewer" in mains:
        pairs += [(mine, "textbrewer") for mine in ("in process", "warm store")]
    rows = []
    for study in plan.studies:
        variant = replace(study, clock=plan.clock)
        lanes = {lane: Contestant(main, variant, plan.start) for lane, main in mains.items()}
        timings = plan.race(lanes, repeats=plan.few_repeats, warmup=1)
        alone = timings["no teachers"].median
        for mine, peer in pairs:
            rows.append(
                race_row(
                    "distil_rows",
                    f"{peer}; ours {mine}, {study.dataset}",
                    "examples/s",
                    study.examples,
                    timings[mine],
                    timings[peer],
                    limit_seconds=alone,
                    precision=study.precision,
                )
            )
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

    learn_from_teachers(study, connection, local, lookahead=0)


def in_store(study: Study, connection: Connection) -> None:
    """What three teachers said before, read back."""

    def stored(directories: list[Path], split: Split, stream: BatchStream) -> Ensemble:
        place = directories[0].parents[1] / "store"
        opened = PublicEnsemble(directories, task=split.task, store=place, host="process")
        opened.label(stream[number] for number in range(stream.batches_per_epoch))
        return opened

    learn_from_teachers(study, connection, stored, lookahead=LOOKAHEAD)


def learn_from_teachers(
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
        for _ in gated(connection, count(), study.clock):  # an epoch
            for _ in range(stream.batches_per_epoch):
                yield [next(given)]

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
            (batch for each in gated(connection, [loader], study.clock) for batch in each),
            span=isinstance(split.task.kind, Span),
        )
