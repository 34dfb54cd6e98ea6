"""Who is compared in distillation: a student without teachers, with three of its own size in its
process, in TextBrewer, in actors on another core, in a store of what they said or are to say.

All train the same student on the same batches; all of one race multiply in the same precision. A
round is several steps, of which the first do not count: so what was asked ahead while others had
their turn is used up before the clock starts.
"""

import logging
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import torch

from road_ray.data import catalog
from road_ray.data.task_and_dataset import Span
from road_ray.distillation.schedule import Schedule
from road_ray.distributed.public_ensemble import Ensemble
from road_ray.models.config import Precision
from road_ray.models.load_weights import suppress_logging
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.base import Objective
from road_ray.objectives.supervised import Supervised
from road_ray.training.config import TrainingConfig
from tests.benchmarks import shapes
from tests.benchmarks.contestants import learn
from tests.benchmarks.race import gated
from tests.benchmarks.shapes import Shape

TEACHERS, LOOKAHEAD = 3, 2
TEMPERATURE, KD_WEIGHT = 2.0, 0.5
_RATE, _MAX_NORM = 5e-4, 1.0


@dataclass(frozen=True)
class Lesson:
    """What a contestant is told: the task, its shape, where its teachers and its student run."""

    task: str
    shape: Shape
    student_cores: Sequence[int]
    teacher_cores: Sequence[int]  # of actors
    precision: Precision  # of student and teachers
    steps: int  # of a round, that count
    host: Literal["process", "actors", "store"] = "process"  # of the answers


def no_teachers(lesson: Lesson, connection: Connection) -> None:
    """The student alone, learning from gold."""
    objective = Supervised(_model(lesson, seed=0))
    _train(objective, cycle(batches(lesson)), lesson, connection)


def taught(lesson: Lesson, connection: Connection) -> None:
    """Three teachers: in the student's process, in actors, asked ahead, or in a store of what they
    have answered once.
    """
    with tempfile.TemporaryDirectory() as place:
        share = 1 / (TEACHERS + 1) if torch.cuda.is_available() else 0
        options: dict[str, Any] = {
            "process": {"host": "process"},
            "actors": {"num_gpus": share, "num_cpus": 0.1},
            "store": {"host": "process", "store": Path(place) / "store"},
        }[lesson.host]
        options |= {"task": lesson.task, "precision": lesson.precision}
        with Ensemble(teachers(lesson, Path(place) / "teachers"), **options) as ensemble:
            if lesson.host == "store":
                ensemble.label(batches(lesson))
            for pid in ensemble.inner.health() if lesson.host == "actors" else ():
                pin(pid, lesson.teacher_cores)
            weight = Schedule("constant", KD_WEIGHT)
            student = _model(lesson, seed=0)
            objective = Supervised(student, kd_weight=weight, temperature=TEMPERATURE)
            lookahead = 0 if lesson.host == "process" else LOOKAHEAD
            requested = ensemble.annotate(cycle(batches(lesson)), lookahead)
            _train(objective, requested, lesson, connection)


def in_textbrewer(lesson: Lesson, connection: Connection) -> None:
    """TextBrewer's ``MultiTeacherDistiller``: the plain mean of teachers in its process.

    It has fp32 only on a CPU; for bf16, PyTorch's autocast is put around every model.
    """
    # Its import wants a writer of TensorBoard's, also where nothing is to be written.
    stand_in = cast(Any, SimpleNamespace(SummaryWriter=None))
    sys.modules.setdefault("tensorboardX", stand_in)
    from textbrewer import DistillationConfig, MultiTeacherDistiller, TrainingConfig

    if sys.modules["tensorboardX"] is stand_in:
        del sys.modules["tensorboardX"]
    from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification

    span = isinstance(catalog.task(lesson.task).kind, Span)
    auto = AutoModelForQuestionAnswering if span else AutoModelForSequenceClassification
    names = ("start_logits", "end_logits") if span else ("logits",)
    logging.getLogger("Distillation").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as place:
        directories = teachers(lesson, Path(place) / "teachers", TEACHERS + 1)
        with suppress_logging():
            models = [
                auto.from_pretrained(directory).eval().requires_grad_(False).to(shapes.device())
                for directory in directories
            ]
        for model in models if lesson.precision == "bf16" else ():
            model.forward = torch.autocast(shapes.device().type, torch.bfloat16)(model.forward)
        student = models.pop().requires_grad_(True).train()
        pin(os.getpid(), lesson.student_cores)
        distiller = MultiTeacherDistiller(
            train_config=TrainingConfig(
                output_dir=place, log_dir=None, device=shapes.device(), ckpt_steps=10**9
            ),
            distill_config=DistillationConfig(
                temperature=TEMPERATURE, kd_loss_weight=KD_WEIGHT, hard_label_weight=1 - KD_WEIGHT
            ),
            model_T=models,
            model_S=student,
            adaptor_T=lambda _, out: {"logits": [out[name].float() for name in names]},
            adaptor_S=lambda _, out: {
                "logits": [out[name].float() for name in names],
                "losses": [out.loss],
            },
        )
        optimizer = torch.optim.AdamW(student.parameters(), lr=_RATE, fused=True)
        no_inputs = ("task", "dataset")  # of models of Hugging Face
        gold = [{n: x for n, x in b.items() if n not in no_inputs} for b in batches(lesson)]
        loader = _steps(connection, lesson, gold)
        with distiller:
            distiller.train(optimizer, loader, num_steps=1_000_000, max_grad_norm=_MAX_NORM)


def _train(
    objective: Objective, given: Iterator[Any], lesson: Lesson, connection: Connection
) -> None:
    """The loop that every recipe runs, with its journal."""
    pin(os.getpid(), lesson.student_cores)
    learn(
        objective,
        lambda _: ([dict(batch)] for batch in _steps(connection, lesson, given)),
        TrainingConfig(precision=lesson.precision),
        peak_lr=_RATE,
    )


def _steps(connection: Connection, lesson: Lesson, given: Iterable[Any]) -> Iterator[Any]:
    return gated(connection, given, lesson.steps, LOOKAHEAD + 1)


def batches(lesson: Lesson) -> list[dict[str, Any]]:
    """Random rows with gold."""
    task, chance = catalog.task(lesson.task), torch.Generator().manual_seed(1)
    span = isinstance(task.kind, Span)
    size, made = (lesson.shape.batch_size,), []
    for batch in shapes.batches(lesson.shape):
        del batch["noise"]
        names = ("start_positions", "end_positions") if span else ("labels",)
        most = lesson.shape.length // 2 if span else task.kind.width
        gold = {name: torch.randint(most, size, generator=chance) for name in names}
        gold = {name: tensor.to(shapes.device()) for name, tensor in gold.items()}
        made.append({**batch, **gold, "task": task.name, "dataset": task.name})
    return made


def teachers(lesson: Lesson, place: Path, count: int = TEACHERS) -> list[Path]:
    """Directories of random models of the student's size."""
    made = [place / str(number) for number in range(count)]
    for seed, directory in enumerate(made, 1):
        _model(lesson, seed).export(directory, lesson.task)
    return made


def _model(lesson: Lesson, seed: int) -> MultitaskModel:
    size, task = lesson.shape.encoder, catalog.task(lesson.task)
    return shapes.model_of(size, lesson.shape.vocab_size, task, seed)


def pin(pid: int, cores: Sequence[int]) -> None:
    """Keep every thread of a process on these cores; threads to come inherit it."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), cores)
