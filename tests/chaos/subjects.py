"""The objects that ``test_mutations.py`` damages: tiny runs and what they leave, made once each."""

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
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

Made = Callable[[Path, int], object]
"""Makes an object in a directory, with a seed."""


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

    # Run directories

    def _of(self, name: str, make: Made, command: Callable[[Path], Result]) -> Subject:
        """A subject whose command uses the damaged directory itself."""
        place, other = self.root / name, self.root / f"{name}.other"
        make(place, 1)
        make(other, 2)
        return Subject(place, lambda: command(place), other)

    def _used(self, name: str, make: Made, command: Callable[[Path, Path], Result]) -> Subject:
        """A subject whose command uses the damaged directory from a new run directory."""
        out = self.root / f"{name}.out"
        made = self._of(name, make, lambda place: command(out, place))
        return replace(made, prepare=lambda: shutil.rmtree(out, ignore_errors=True))

    def finished_finetuning(self) -> Subject:
        return self._of("finished_finetuning", self.finetune, self.finetune)

    def unfinished_finetuning(self) -> Subject:
        assert self.finetuning  # its start is made before anything is stopped

        def stopped(at: Path, seed: int) -> None:
            _stopped(lambda context: self.finetune(at, seed, context), after=3)

        return self._of("unfinished_finetuning", stopped, self.finetune)

    def finished_pretraining(self) -> Subject:
        return self._of("finished_pretraining", self.pretrain, self.pretrain)

    def unfinished_pretraining(self) -> Subject:
        """Killed after its last step, before its figures: they come from the journal."""

        def ended(at: Path, seed: int) -> None:
            self.pretrain(at, seed)
            shutil.rmtree(at / "hf")
            for name in ("metrics.json", "report.html"):
                (at / name).unlink()

        return self._of("unfinished_pretraining", ended, self.pretrain)

    def unfinished_distillation(self) -> Subject:
        store = self.root / "unfinished_distillation.store"
        assert self.teachers_directory.is_dir()  # made before anything is stopped

        def stopped(at: Path, seed: int) -> None:
            _stopped(lambda context: self.distill(at, store, seed, context), after=3)

        made = self._of(
            "unfinished_distillation", stopped, lambda place: self.distill(place, store)
        )
        return replace(made, chosen=lambda name: "/" not in name)

    def finished_evaluation(self) -> Subject:
        model = self.root / "model"
        self.finetune(model)

        def make(at: Path, seed: int) -> None:
            judged = {"data.max_judged_rows": 5} if seed == 2 else {}
            self.evaluate(at, model, **judged)

        return self._of("finished_evaluation", make, lambda at: self.evaluate(at, model))

    # Models, stores, corpora, caches

    def model_directory(self) -> Subject:
        """A fine-tuned model that is evaluated."""

        def make(at: Path, seed: int) -> None:
            self.finetune(at.with_name(f"{at.name}.run"), seed)
            shutil.copytree(at.with_name(f"{at.name}.run") / "hf", at)

        return self._used("model_directory", make, self.evaluate)

    def encoder_directory(self) -> Subject:
        """A pre-trained encoder that is fine-tuned."""

        def make(at: Path, seed: int) -> None:
            self.pretrain(at.with_name(f"{at.name}.run"), seed)
            shutil.copytree(at.with_name(f"{at.name}.run") / "hf", at)

        def command(out: Path, model: Path) -> Result:
            return self.finetune(out, init=str(model), **{"training.steps": 1})

        return self._used("encoder_directory", make, command)

    def teacher_store(self) -> Subject:
        def make(at: Path, seed: int) -> None:
            self.distill(at.with_name(f"{at.name}.1"), at, seed, **{"training.steps": 1})

        return self._used("teacher_store", make, self.distill)

    def corpus(self) -> Subject:
        """Shards, their manifest and the tokenizer that was learnt."""

        def make(at: Path, seed: int) -> None:
            size = {"data.vocab_size": 190 + 10 * seed}
            self.pretrain(at.with_name(f"{at.name}.run"), seed, **{"data.shards": str(at)}, **size)

        def command(out: Path, shards: Path) -> Result:
            return self.pretrain(out, **{"data.shards": str(shards)})

        return self._used("corpus", make, command)

    def feature_cache(self) -> Subject:
        def make(at: Path, seed: int) -> None:
            command(at.with_name(f"{at.name}.run"), at, **{"data.max_length_tokens": 31 + seed})

        def command(out: Path, cache: Path, **changes: Any) -> Result:
            with patch.dict(os.environ, ROAD_CACHE=str(cache)):
                return self.finetune(out, **changes)

        return self._used("feature_cache", make, command)

    def teacher_list(self) -> Subject:
        """The ``teachers.json`` of two teachers, judged together."""

        def make(at: Path, seed: int) -> None:
            shutil.copytree(self.teachers_directory, at)
            if seed == 2:  # of other teachers
                for number in (0, 1):
                    shutil.rmtree(at / f"teacher-{number}")
                    self.finetune(at / f"teacher-{number}", 11 + number)

        def command(out: Path, teachers_directory: Path) -> Result:
            return self.evaluate(out, teachers_directory / "teachers.json")

        made = self._used("teacher_list", make, command)
        return replace(made, chosen=lambda name: name == "teachers.json")


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
