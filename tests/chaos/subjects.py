"""The objects that ``test_mutations.py`` damages: tiny runs and what they leave, made once each."""

import os
import shutil
import signal
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import road_ray as rr
from road_ray.errors import InterruptedRunError
from road_ray.training.run_context import RunContext
from tests.chaos.damage import Result, Subject, result_of
from tests.conftest import PRETRAINING
from tools.miniature import write

Made = tuple[Callable[[Path, int], object], Callable[[Path, Path], Result]]
"""Makes an object in a directory, with a seed; uses one, its second argument."""


class Workshop:
    """Makes the objects below ``root``; what several of them need is made once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.world = write(root / "world", size=0.01)

    # Configurations

    @property
    def pretraining(self) -> dict[str, Any]:
        small = {"data.vocab_size": 200, "encoder.max_length_tokens": 64, "training.steps": 2}
        settings = {"data.root": str(self.world), "training.log_every_steps": 1}
        return PRETRAINING | {"data.shards": str(self.root / "shards")} | small | settings

    @cached_property
    def finetuning(self) -> dict[str, Any]:
        start = rr.pretrain(overrides=self.pretraining | {"run_dir": str(self.root / "start")})
        return {
            "init": str(start.directory),
            "data.root": str(self.world),
            "data.dataset": "sst2",
            "data.batch_size": 4,
            "data.max_length_tokens": 32,
            "training.steps": 4,
            "training.save_every_steps": 2,
            "training.log_every_steps": 1,
            "optimizer.peak_lr": 1e-2,
            "console": "quiet",
        }

    @cached_property
    def teachers_directory(self) -> Path:
        """Two teachers and their list."""
        run = rr.teachers(
            overrides=self.finetuning | {"num_teachers": 2, "run_dir": str(self.root / "taught")}
        )
        return run.directory

    # Commands

    def pretrain(self, at: Path, seed: int = 1, **changes: Any) -> Result:
        given = self.pretraining | {"run_dir": str(at), "seed": seed} | changes
        return _result(rr.pretrain(overrides=given))

    def finetune(
        self, at: Path, seed: int = 1, context: RunContext | None = None, **changes: Any
    ) -> Result:
        given = self.finetuning | {"run_dir": str(at), "seed": seed} | changes
        return _result(rr.finetune(overrides=given, context=context))

    def evaluate(self, at: Path, init: Path, **changes: Any) -> Result:
        given = {
            "init": str(init),
            "data.root": str(self.world),
            "data.datasets": ["sst2"],
            # Without its record, a model is one of others, whose length of training is unknown.
            "data.max_length_tokens": 32,
            "console": "quiet",
            "run_dir": str(at),
        }
        return _result(rr.evaluate(overrides=given | changes))

    def distill(
        self,
        at: Path,
        store: Path,
        seed: int = 1,
        context: RunContext | None = None,
        **changes: Any,
    ) -> Result:
        teaching = {
            "distillation.teachers": [str(self.teachers_directory / "teachers.json")],
            "distillation.num_teachers": 2,
            "distillation.host": "process",
            "distillation.store": str(store),
        }
        given = self.finetuning | teaching | {"run_dir": str(at), "seed": seed} | changes
        return _result(rr.distill(overrides=given, context=context))

    def subject(self, name: str) -> Subject:
        """The object of that name and another of its kind, made now."""
        make, command = getattr(self, name)()
        place, other = self.root / name, self.root / f"{name}.other"
        make(place, 1)
        make(other, 2)
        out = self.root / f"{name}.out"  # the run directory of what only reads the object

        def use() -> Result:
            shutil.rmtree(out, ignore_errors=True)  # of the command before
            return command(out, place)

        return Subject(place, use, other, CHOSEN.get(name, lambda file: True))

    # Run directories, whose command uses them itself

    def finished_finetuning(self) -> Made:
        return self.finetune, lambda out, run: self.finetune(run)

    def unfinished_finetuning(self) -> Made:
        assert self.finetuning  # its start is made before anything is stopped

        def stopped(at: Path, seed: int) -> None:
            _stopped(lambda context: self.finetune(at, seed, context), after=3)

        return stopped, lambda out, run: self.finetune(run)

    def finished_pretraining(self) -> Made:
        return self.pretrain, lambda out, run: self.pretrain(run)

    def unfinished_pretraining(self) -> Made:
        """Killed after its last step, before its figures: they come from the journal."""

        def ended(at: Path, seed: int) -> None:
            self.pretrain(at, seed)
            shutil.rmtree(at / "hf")
            for name in ("metrics.json", "report.html"):
                (at / name).unlink()

        return ended, lambda out, run: self.pretrain(run)

    def unfinished_distillation(self) -> Made:
        store = self.root / "unfinished_distillation.store"
        assert self.teachers_directory.is_dir()  # made before anything is stopped

        def stopped(at: Path, seed: int) -> None:
            _stopped(lambda context: self.distill(at, store, seed, context), after=3)

        return stopped, lambda out, run: self.distill(run, store)

    def finished_evaluation(self) -> Made:
        model = self.root / "model"
        self.finetune(model)

        def make(at: Path, seed: int) -> None:
            judged = {"data.max_judged_rows": 5} if seed == 2 else {}
            self.evaluate(at, model, **judged)

        return make, lambda out, run: self.evaluate(run, model)

    # Models, stores, corpora, caches

    def model_directory(self) -> Made:
        """A fine-tuned model that is evaluated."""
        return _exported(self.finetune), self.evaluate

    def encoder_directory(self) -> Made:
        """A pre-trained encoder that is fine-tuned."""
        steps = {"training.steps": 1}
        return _exported(self.pretrain), lambda out, at: self.finetune(out, init=str(at), **steps)

    def teacher_store(self) -> Made:
        def make(at: Path, seed: int) -> None:
            self.distill(at.with_name(f"{at.name}.1"), at, seed, **{"training.steps": 1})

        return make, self.distill

    def corpus(self) -> Made:
        """Shards, their manifest and the tokenizer that was learnt."""

        def make(at: Path, seed: int) -> None:
            size = {"data.vocab_size": 190 + 10 * seed}
            self.pretrain(at.with_name(f"{at.name}.run"), seed, **{"data.shards": str(at)}, **size)

        return make, lambda out, shards: self.pretrain(out, **{"data.shards": str(shards)})

    def feature_cache(self) -> Made:
        def make(at: Path, seed: int) -> None:
            command(at.with_name(f"{at.name}.run"), at, **{"data.max_length_tokens": 31 + seed})

        def command(out: Path, cache: Path, **changes: Any) -> Result:
            with patch.dict(os.environ, ROAD_CACHE=str(cache)):
                return self.finetune(out, **changes)

        return make, command

    def teacher_list(self) -> Made:
        """The ``teachers.json`` of two teachers, judged together."""

        def make(at: Path, seed: int) -> None:
            shutil.copytree(self.teachers_directory, at)
            if seed == 2:  # of other teachers
                for number in (0, 1):
                    shutil.rmtree(at / f"teacher-{number}")
                    self.finetune(at / f"teacher-{number}", 11 + number)

        return make, lambda out, teachers: self.evaluate(out, teachers / "teachers.json")


CHOSEN: dict[str, Callable[[str], bool]] = {
    "unfinished_distillation": lambda file: "/" not in file,
    "teacher_list": lambda file: file == "teachers.json",
}
"""Files that are damaged, where they are not all."""
SUBJECTS = {
    "finished_finetuning": "finished fine-tuning",
    "unfinished_finetuning": "unfinished fine-tuning",
    "finished_pretraining": "finished pre-training",
    "unfinished_pretraining": "pre-training killed before its figures",
    "unfinished_distillation": "unfinished distillation, its records",
    "finished_evaluation": "finished evaluation",
    "model_directory": "model directory, evaluated",
    "encoder_directory": "model directory, fine-tuned",
    "teacher_store": "store of teachers' logits",
    "corpus": "corpus and its tokenizer",
    "feature_cache": "cache of features",
    "teacher_list": "`teachers.json`",
}
"""What a table calls each of them."""


def _exported(train: Callable[[Path, int], object]) -> Callable[[Path, int], object]:
    def make(at: Path, seed: int) -> None:
        run = at.with_name(f"{at.name}.run")
        train(run, seed)
        shutil.copytree(run / "hf", at)

    return make


def _result(run: Any) -> dict[str, str]:
    figures = {name: value for name, value in run.metrics.items() if not name.startswith("time/")}
    return result_of(run.directory) | {"returned figures": str(sorted(figures.items()))}


def _stopped(command: Callable[[RunContext], object], *, after: int) -> None:
    """Run the command and stop it, with a checkpoint, after that step."""

    def on_row(step: int, total: int | None, row: object) -> None:
        if step == after:
            os.kill(os.getpid(), signal.SIGTERM)

    try:
        command(RunContext(on_row=on_row))
    except InterruptedRunError:
        return
    raise AssertionError("the run ended before it could be stopped")
