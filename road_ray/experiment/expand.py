"""Jobs of an experiment: its ensembles of teachers, and the trainings of each arm and seed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from road_ray.config import Config, override
from road_ray.data.config import SourceConfig
from road_ray.data.features.examples_and_features import SpanExample, TextExample
from road_ray.data.load_split import find_dataset, read_examples, read_unlabelled_rows, root_of
from road_ray.data.model_files.locate_model import locate_model
from road_ray.data.model_files.remote_code import read_config
from road_ray.data.unlabelled import REST
from road_ray.errors import DataError
from road_ray.experiment.config import ArmConfig, ReproduceConfig, StageConfig
from road_ray.models.encoder import model_directory
from road_ray.models.encoder_layers import num_layers
from road_ray.recipes.config import RunConfig
from road_ray.recipes.distillation.config import DistillConfig, DistillDataConfig
from road_ray.recipes.finetuning.config import FinetuneConfig, FinetuneDataConfig, TeachersConfig
from road_ray.recipes.finetuning.train_teachers import single_teachers
from road_ray.recipes.multitask.config import MultitaskDataConfig
from road_ray.recipes.preflight_checks import check_evaluated_once, require_init, require_splits
from road_ray.recipes.pretraining.pretraining_flops import flops_per_step
from road_ray.recipes.run_directory.recorded_config import mirrored_below
from road_ray.system.json_file import write_text_atomic
from road_ray.training.config import TrainingConfig

C = TypeVar("C", bound=Config)
TEACHER_SEED = 1000  # added to ``seed``, so that no teacher shares the seed of a student
ANSWERS = "answers"  # verb of the jobs in which teachers answer the rows of their students


@dataclass(frozen=True)
class Job:
    """One run of a verb. It begins when the jobs named in ``after`` have ended, and is skipped if
    one of them failed.
    """

    name: str  # directory below that of the experiment; of answers, one that is not made
    verb: str
    config: RunConfig
    after: tuple[str, ...] = ()
    arm: str = ""  # of which the metrics are a part, if it is ``scored``
    scored: bool = False

    @property
    def run_dir(self) -> Path:
        """Directory by which the job is named in messages."""
        return self.config.run_dir


@dataclass(frozen=True)
class Expanded:
    """All jobs of an experiment, each after those that it needs."""

    name: str
    about: str  # title of tables
    source: str  # paper of the published metrics
    arms: Mapping[str, ArmConfig]
    seeds: Sequence[int]  # of every arm
    jobs: tuple[Job, ...]
    data: SourceConfig  # in which the evaluated data sets are found
    scored_on: tuple[str, ...] = ()  # data sets whose mean is the score of an arm; none: no score

    def of_arm(self, arm: str, seed: int) -> list[Job]:
        """Return the jobs of one arm with one seed."""
        return [job for job in self.jobs if (job.arm, job.config.seed) == (arm, seed)]

    @property
    def ensembles(self) -> list[TeachersConfig]:
        """Ensembles of teachers."""
        return [job.config for job in self.jobs if isinstance(job.config, TeachersConfig)]


def expand(config: ReproduceConfig) -> Expanded:
    """Return the jobs of an experiment and write the data files that they share.

    Raises ``ConfigError`` for a missing ``init``, ``DataError`` for missing files.
    """
    return _Expander(config).expanded()


def chosen_arms(config: ReproduceConfig) -> dict[str, ArmConfig]:
    """Return the configured arms with those that they need or are tested against, in order."""
    every, selected = config.compared.arms, list(config.arms)
    for name in selected:  # grows while it is read
        against = every[name].against or (next(iter(every)),)
        start_from = [every[name].start_from] if every[name].start_from else []
        selected += [other for other in (*against, *start_from) if other not in selected]
    return {name: arm for name, arm in every.items() if not selected or name in selected}


class _Expander:
    """Makes the jobs of an experiment."""

    def __init__(self, config: ReproduceConfig) -> None:
        self.config = config
        self.arms = chosen_arms(config)
        self.targets = _targets(config)
        self.jobs: dict[str, Job] = {}
        self.answers: dict[str, str] = {}  # jobs of answers by what decides them
        self.rows: dict[str, tuple[int, int]] = {}  # of a target, labelled and unlabelled

    def expanded(self) -> Expanded:
        config = self.config
        if not config.of_pretraining:
            require_init(config.init)
        # Else the first error would come after trainings that need other data sets.
        require_splits(
            self._needed(),
            "name the data sets that are there: data.dataset=..., targets={...} or "
            "multitask.data.datasets=[...]",
        )
        seeds = range(config.seed, config.seed + config.num_seeds)
        for name in self.arms:  # one that another starts from comes before it
            for seed in seeds:
                self._arm(name, seed)
        return Expanded(
            name=config.comparison,
            about=config.compared.about or config.run_dir.name,
            source=config.compared.source,
            arms=self.arms,
            seeds=seeds,
            jobs=tuple(self.jobs.values()),
            data=config.data,
            scored_on=tuple(self.targets) if config.of_pretraining else (),
        )

    def _needed(self) -> Iterator[tuple[str, str, SourceConfig]]:
        """Yield data set, split and source of all that the arms read."""
        sections = [self._data(name) for name in self.targets]
        check_evaluated_once((data.dataset, data.evaluated_on) for data in sections)
        for data in sections:
            yield from data.splits()
        if any(stage.verb == "multitask" for arm in self.arms.values() for stage in arm.stages):
            yield from self._mixture_data().splits()

    def _add(
        self, verb: str, config: RunConfig, after: Sequence[str] = (), arm: str = "", **more: Any
    ) -> str:
        """Add a job unless it is there, and return its name."""
        place = config.run_dir.relative_to(self.config.run_dir).as_posix()
        name = str(more.pop("name", place))
        self.jobs.setdefault(name, Job(name, verb, config, tuple(after), arm, **more))
        return name

    def _arm(self, name: str, seed: int) -> str:
        """Add the jobs of an arm with one seed; return the name of the last one."""
        arm, place, after = self.arms[name], Path(name) / f"seed-{seed}", ""
        if arm.start_from:
            after = self._arm(arm.start_from, seed)
        for number, stage in enumerate(arm.stages):
            shared = {"seed": seed, "init": self._model_of(after)}
            make = self._mixture if stage.verb == "multitask" else self._pretraining
            config, taught = make(arm, stage, place / f"stage-{number}", shared)
            after = self._add(stage.verb, config, [*filter(None, [after]), *taught], name)
        before, verb = [*filter(None, [after])], "distill" if arm.teachers else "finetune"
        for target in self.targets:
            inside = place / (target if len(self.targets) > 1 else "student")
            shared = {"seed": seed, "init": self._model_of(before[0] if before else "")}
            config, taught = self._student(arm, target, inside, shared)
            after = self._add(verb, config, [*before, *taught], name, scored=True)
        return after

    def _model_of(self, job: str) -> str:
        """Return the model that a job leaves, or ``init`` without one."""
        return str(self.config.run_dir / job) if job else self.config.init

    def _student(
        self, arm: ArmConfig, target: str, place: Path, shared: Mapping[str, Any]
    ) -> tuple[RunConfig, list[str]]:
        """Return the training that scores an arm on a data set, and the job of its teachers."""
        config, data = self.config, self._data(target)
        fields = {**self._shared(config.training, place), **shared}
        fields |= {"optimizer": config.optimizer, "student": config.student}
        changes: dict[str, Any] = {"data.dataset": target, **self.targets[target]}
        if arm.layers != 1.0:
            changes["student.layers"] = max(1, round(_num_layers(config.init) * arm.layers))
        if arm.unlabelled or arm.as_many_updates:
            files = data.unlabelled or (REST,)
            if target not in self.rows:
                more = read_unlabelled_rows(files, target, data)
                self.rows[target] = num_labelled(target, data), len(more)
            labelled, unlabelled = self.rows[target]
            if arm.as_many_updates:
                changes["data.epochs"] = data.epochs * (labelled + unlabelled) / labelled
            else:
                changes["data.unlabelled"] = files
        if not arm.teachers:
            plain = FinetuneConfig(**fields, data=as_base(FinetuneDataConfig, config.data))
            return override(plain, changes | arm.keys), []
        ensemble = self._ensemble(arm.teachers, data, self.targets[target])
        changes |= _teacher_keys(config.run_dir / ensemble, arm.members)
        student = DistillConfig(
            **fields,
            data=config.data,
            distillation=config.distillation,
            weighting=config.weighting,
        )
        changes["distillation.store"] = str(config.run_dir / "store")
        student = override(student, changes | arm.keys)
        # Rows that the same teachers answer are answered once.
        rows = student.data.dataset, student.data.unlabelled
        title = f"{ANSWERS} of {Path(ensemble).name}"
        count = sum(name.startswith(title) for name in self.answers.values())
        key = str((ensemble, student.distillation.teachers, rows))
        name = self.answers.setdefault(key, f"{title} {count + 1}" if count else title)
        return student, [self._add(ANSWERS, student, [ensemble], name=name)]

    def _ensemble(self, name: str, data: DistillDataConfig, keys: Mapping[str, Any]) -> str:
        """Add the teachers of a data set, which all arms that name the ensemble share; return the
        name of the job that lists and evaluates them.
        """
        config, place = self.config, Path("teachers") / f"{name}-{data.dataset}"
        if place.as_posix() in self.jobs:
            return place.as_posix()
        made = TeachersConfig(
            **self._shared(config.training, place),
            seed=config.seed + TEACHER_SEED,
            init=config.init,
            optimizer=config.optimizer,
            data=as_base(FinetuneDataConfig, data),
            num_teachers=config.distillation.num_teachers or 3,
        )
        chosen = {k: v for k, v in keys.items() if k not in ("data.dataset", "init")}
        ensemble = override(made, chosen | config.compared.ensembles[name])
        after = [self._add("finetune", single) for single in single_teachers(ensemble)]
        return self._add("teachers", ensemble, after)

    def _pretraining(
        self, arm: ArmConfig, stage: StageConfig, place: Path, shared: Mapping[str, Any]
    ) -> tuple[RunConfig, list[str]]:
        """Return a pre-training of new weights at a share of the budget, or of ``init``."""
        config, data = self.config, self.config.pretrain.data
        fields = {**self._shared(config.pretrain.training, place), **shared}
        fields["init"] = shared["init"] or config.pretrain.init
        changes: dict[str, Any] = {"data.root": data.root or config.data.root}
        lengths: dict[str, Any] = {}
        if config.of_pretraining:
            steps = self._affordable_steps(arm, stage)
            lengths = {"training.steps": steps, "training.save_every_steps": max(1, steps // 4)}
            lengths["optimizer.warmup_steps"] = max(1, steps // 10)
            if shared["init"]:
                changes["generator.init"] = shared["init"]
        else:
            changes["encoder.family"] = "init"
            changes["data.corpus"] = data.corpus or self._text_of(next(iter(self.targets)))
            changes["data.shards"] = data.shards or config.run_dir / "shards"
        config_of_stage = config.pretrain.model_copy(update=fields)
        return override(config_of_stage, changes | stage.keys | lengths), []

    def _affordable_steps(self, arm: ArmConfig, stage: StageConfig) -> int:
        """Return the steps that the share of a stage in the budget buys, or the first arm's."""
        config = self.config
        if config.compared.equal == "steps":
            arm = next(iter(config.compared.arms.values()))
            stage = arm.stages[0]
        root = config.pretrain.data.root or config.data.root
        priced = override(config.pretrain, {"data.root": root} | stage.keys)
        share = config.flops * arm.share / len(arm.stages)
        return max(1, round(share / flops_per_step(priced)))

    def _text_of(self, name: str) -> str:
        """Write the training texts of a data set, each once, as a corpus, and return its path."""
        path = (self.config.run_dir / "rows" / f"{name}-text.jsonl").resolve()
        texts: dict[str, None] = {}
        for example in _training_examples(name, self.config.data) if not path.is_file() else ():
            match example:
                case TextExample():
                    texts[" ".join(example.texts)] = None
                case SpanExample():
                    texts[example.context] = None
                case _:
                    raise DataError(
                        f"{example.where}: a row of tags or choices has no text of its own\n"
                        "  allowed: data sets of sentences, pairs and questions\n"
                        "  fix: pretrain.data.corpus=..."
                    )
        if texts:
            write_text_atomic(path, "".join(f"{json.dumps({'text': text})}\n" for text in texts))
        return str(path)

    def _mixture(
        self, _: ArmConfig, stage: StageConfig, place: Path, shared: Mapping[str, Any]
    ) -> tuple[RunConfig, list[str]]:
        """Return a multi-task training, and the jobs of its teachers."""
        config, mixture, data = self.config, self.config.multitask, self._mixture_data()
        fields = {**self._shared(mixture.training, place), **shared, "data": data}
        changes: dict[str, Any] = {"data.batch_size": stage.batch_factor * data.batch_size}
        if data.max_batch_tokens is not None:
            changes["data.max_batch_tokens"] = stage.batch_factor * data.max_batch_tokens
        taught = []
        for dataset in data.datasets if stage.teachers else ():
            learnt = {name: getattr(data, name) for name in SourceConfig.model_fields}
            learnt |= {"batch_size": config.data.batch_size, "epochs": config.data.epochs}
            of_dataset = DistillDataConfig(dataset=dataset, **learnt)
            taught.append(self._ensemble(stage.teachers, of_dataset, {}))
            listed = config.run_dir / taught[-1] / "teachers.json"
            changes[f"distillation.teachers.{dataset}"] = str(listed)
            changes["distillation.host"] = config.distillation.host
            changes["distillation.store"] = str(config.run_dir / "store")
        return override(mixture.model_copy(update=fields), stage.keys | changes), taught

    def _data(self, target: str) -> DistillDataConfig:
        """Return the data of the experiment with the keys of a target."""
        keys = self.targets[target].items()
        own = {key.removeprefix("data."): v for key, v in keys if key.startswith("data.")}
        data: DistillDataConfig = self.config.data.model_copy(update={"dataset": target})
        return override(data, own)

    def _mixture_data(self) -> MultitaskDataConfig:
        data = self.config.multitask.data
        return data.model_copy(update={"root": data.root or self.config.data.root})

    def _shared(self, training: TrainingConfig, place: Path) -> dict[str, Any]:
        """Return the fields that every training has from the experiment."""
        config = self.config
        return {
            "run_dir": config.run_dir / place,
            "training": mirrored_below(training, place),
            "console": config.console,
            "tracking": config.tracking,
        }


def _targets(config: ReproduceConfig) -> dict[str, dict[str, Any]]:
    """Return the data sets that score the arms, each with the keys in which it differs."""
    if config.targets is not None:
        return config.targets
    if config.data.dataset:
        return {config.data.dataset: {}}
    targets = config.compared.targets
    if config.data.evaluate_on is None:
        return targets
    return {
        name: {key: value for key, value in keys.items() if key != "data.evaluate_on"}
        for name, keys in targets.items()
    }


def _training_examples(name: str, source: SourceConfig) -> list[Any]:
    return read_examples(find_dataset(name, source)[0], "train", root_of(name, source))


def num_labelled(name: str, source: SourceConfig) -> int:
    """Return the number of labelled training examples of a data set."""
    count = len(_training_examples(name, source))
    return min(count, source.max_rows or count)


@cache
def _num_layers(init: str) -> int:
    return num_layers(read_config(locate_model(model_directory(init), weights=False)))


def as_base(kind: type[C], config: object) -> C:
    """Return a configuration, or a section of one, as one of its base classes."""
    return kind(**{name: getattr(config, name) for name in kind.model_fields})


def _teacher_keys(place: Path, members: int | None) -> dict[str, Any]:
    """Return the keys that name the teachers: all of the ensemble, or its first ones."""
    if members is None:
        return {"distillation.teachers": [str(place / "teachers.json")]}
    chosen = [str(place / f"teacher-{number}" / "hf") for number in range(members)]
    return {"distillation.teachers": chosen, "distillation.num_teachers": members}
