"""Jobs of an experiment: its ensembles of teachers, and the trainings of each arm and seed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar, cast

from road_ray.config import Config, override, to_dict
from road_ray.data.config import SourceConfig
from road_ray.data.load_split import read_unlabelled_rows
from road_ray.data.model_files.locate_model import locate_model
from road_ray.data.model_files.remote_code import read_config
from road_ray.experiment import data_files
from road_ray.experiment.config import ArmConfig, ReproduceConfig, StageConfig
from road_ray.models.encoder import model_directory
from road_ray.models.encoder_layers import num_layers
from road_ray.recipes.config import RunConfig
from road_ray.recipes.distillation.config import DistillConfig, DistillDataConfig
from road_ray.recipes.finetuning.config import FinetuneConfig, FinetuneDataConfig, TeachersConfig
from road_ray.recipes.finetuning.train_teachers import single_teachers
from road_ray.recipes.preflight_checks import check_evaluated_once, require_init, require_splits
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.pretraining_flops import cost
from road_ray.recipes.run_directory.recorded_config import mirrored_below

T = TypeVar("T")
C = TypeVar("C", bound=Config)
Keys = Mapping[str, Any]
"""Changed configuration keys of a verb, by dotted name."""
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
    """Makes the configurations of an experiment."""

    def __init__(self, config: ReproduceConfig) -> None:
        self.config = config
        self.arms = chosen_arms(config)
        self.jobs: dict[str, Job] = {}
        self.made: dict[Hashable, object] = {}

    def expanded(self) -> Expanded:
        if not self.config.of_pretraining:
            require_init(self.config.init)
        # Else the first error would come after trainings that need other data sets.
        require_splits(
            self._needed(),
            "name the data sets that are there: data.dataset=..., targets={...}, "
            "multitask.data.datasets=[...] or probe_on=[...]",
        )
        for name in self.arms:  # one that another starts from comes before it
            for number in range(self.config.num_seeds):
                self._arm(name, self.config.seed + number)
        of_pretraining = self.config.of_pretraining
        return Expanded(
            name=self.config.comparison,
            about=self.config.compared.about or self.config.run_dir.name,
            source=self.config.compared.source,
            arms=self.arms,
            seeds=range(self.config.seed, self.config.seed + self.config.num_seeds),
            jobs=tuple(self.jobs.values()),
            data=self.config.probe.data if of_pretraining else self.config.data,
            scored_on=self.config.probe_on if of_pretraining else (),
        )

    @cached_property
    def _targets(self) -> dict[str, Keys]:
        config = self.config
        if config.of_pretraining:
            return {name: {} for name in config.probe_on}
        if config.targets is not None:
            return dict(config.targets)
        if config.data.dataset:
            return {config.data.dataset: {}}
        targets: dict[str, Keys] = dict(config.compared.targets)
        if config.data.evaluate_on is None:
            return targets
        return {
            name: {key: value for key, value in keys.items() if key != "data.evaluate_on"}
            for name, keys in targets.items()
        }

    def _add(
        self, verb: str, config: RunConfig, after: tuple[str, ...] = (), arm: str = "", **more: Any
    ) -> str:
        """Add a job unless it is there, and return its name."""
        place = config.run_dir.relative_to(self.config.run_dir).as_posix()
        name = str(more.pop("name", place))
        self.jobs.setdefault(name, Job(name, verb, config, after, arm, **more))
        return name

    def _needed(self) -> Iterator[tuple[str, str, SourceConfig]]:
        """Yield data set, split and source of all that the arms read."""
        if self.config.of_pretraining:
            for name in self.config.probe_on:
                yield from self._probe_data(name).splits()
            return
        targets = {name: self._data_of(name, keys) for name, keys in self._targets.items()}
        check_evaluated_once((name, d.evaluate_on or (name,)) for name, d in targets.items())
        for data in targets.values():
            yield from data.splits()
        if any(stage.verb == "multitask" for arm in self.arms.values() for stage in arm.stages):
            yield from self._mixture_data().splits()

    def _probe_data(self, name: str) -> FinetuneDataConfig:
        data = self.config.probe.data
        root = data.root or self.config.root
        return data.model_copy(update={"dataset": name, "root": root})

    # One arm with one seed.

    def _arm(self, name: str, seed: int) -> str:
        """Add the jobs of an arm with one seed; return the name of the last one."""
        arm, place = self.arms[name], Path(name) / f"seed-{seed}"
        init = self.config.init
        after: tuple[str, ...] = ()
        if arm.start_from:
            after = (self._arm(arm.start_from, seed),)
            init = str(self.config.run_dir / after[0])
        for number, stage in enumerate(arm.stages):
            config, taught = self._stage(arm, number, place, seed, init, bool(after))
            after = (self._add(stage.verb, config, (*after, *taught), name),)
            init = str(config.run_dir)
        last = ""
        for target, keys in self._targets.items():
            inside = place / target if self._in_folders else place / "student"
            if self.config.of_pretraining:
                last = self._add("finetune", self._probe(inside, seed, target, init), after, name,
                                 scored=True)  # fmt: skip
                continue
            keys = {"init": init, **keys}
            config, taught = self._student(arm, inside, seed, target, keys)
            verb = "distill" if arm.teachers else "finetune"
            last = self._add(verb, config, (*after, *taught), name, scored=True)
        return last

    @property
    def _in_folders(self) -> bool:
        return self.config.of_pretraining or len(self._targets) > 1

    def _probe(self, place: Path, seed: int, name: str, init: str) -> FinetuneConfig:
        probe = self.config.probe
        shared = self._shared(probe.training, place) | {"seed": seed, "init": init}
        return probe.model_copy(update=shared | {"data": self._probe_data(name)})

    def _student(
        self, arm: ArmConfig, place: Path, seed: int, name: str, keys: Keys
    ) -> tuple[FinetuneConfig | DistillConfig, tuple[str, ...]]:
        """Return the training that scores an arm, and the jobs of its teachers."""
        data = self._labels_of(arm, name, keys)
        config = self.config
        shared = {
            **self._shared(config.training, place),
            "seed": seed,
            "init": config.init,
            "optimizer": config.optimizer,
            "student": config.student,
        }
        changes: dict[str, Any] = {"data.dataset": data.dataset, **keys}
        if arm.noise:
            changes.setdefault("data.evaluate_on", data.evaluate_on or [name])
        if arm.layers != 1.0:
            changes["student.layers"] = max(1, round(self._num_layers * arm.layers))
        if arm.as_many_updates or arm.unlabelled:
            own = self._data_of(name, keys)
            files, count = self._unlabelled(name, own)
            if arm.as_many_updates:
                count_labelled = partial(data_files.num_labelled, name, own)
                labelled = self._once(("labelled", name, own.max_rows), count_labelled)
                changes["data.epochs"] = data.epochs * (labelled + count) / labelled
            else:
                changes["data.unlabelled"] = files
        if not arm.teachers:
            plain = FinetuneConfig(**shared, data=as_base(FinetuneDataConfig, data))
            return override(plain, {**changes, **arm.keys}), ()
        ensemble = self._ensemble(arm.teachers, data, keys)
        student = DistillConfig(
            **shared,
            data=as_base(DistillDataConfig, data),
            distillation=config.distillation,
            weighting=config.weighting,
        )
        changes |= _teacher_keys(self.jobs[ensemble].run_dir, arm.members)
        changes["distillation.store"] = str(config.run_dir / "store")
        student = override(student, {**changes, **arm.keys})
        return student, (self._answers(student, ensemble),)

    def _answers(self, student: DistillConfig, ensemble: str) -> str:
        """Add the job in which teachers answer the rows of a student, once for each set of them."""
        rows = student.data.dataset, student.data.unlabelled
        key = str((ANSWERS, ensemble, student.distillation.teachers, rows))
        title = f"{ANSWERS} of {Path(ensemble).name}"
        count = sum(name.startswith(title) for name in self.jobs)
        name = self._once(key, lambda: f"{title} {count + 1}" if count else title)
        return self._add(ANSWERS, student, (ensemble,), name=name)

    def _data_of(self, name: str, keys: Keys) -> DistillDataConfig:
        """Return the data of the experiment with the keys of a target."""
        own = {key.removeprefix("data."): v for key, v in keys.items() if key.startswith("data.")}
        data: DistillDataConfig = self.config.data.model_copy(update={"dataset": name})
        return override(data, own)

    def _labels_of(self, arm: ArmConfig, name: str, keys: Keys) -> DistillDataConfig:
        """Return the data of an arm: those of the comparison, or with wrong labels."""
        data = self._data_of(name, keys)
        if not arm.noise:
            return data
        noisy = f"{name}-noisy-{100 * arm.noise:g}"
        path = self._file(f"{noisy}-of-{data.max_rows or 'all'}.jsonl")
        entry = self._once(path, lambda: data_files.write_noisy(path, name, data, arm.noise))
        judged = data.evaluate_on or (name,)
        changes = {"dataset": noisy, "sets": {**data.sets, noisy: entry}, "evaluate_on": judged}
        return data.model_copy(update=changes)

    def _unlabelled(self, name: str, data: DistillDataConfig) -> tuple[list[str], int]:
        """Return the files of rows without labels and the number of their rows."""
        configured = data.unlabelled
        if configured:
            count = self._once(
                (configured, name), lambda: len(read_unlabelled_rows(configured, name, data))
            )
            return list(configured), count
        labelled, most = data.max_rows or "no", self.config.data.max_unlabelled_rows
        path = self._file(f"{name}-{most or 'all'}-unlabelled-beyond-{labelled}-labelled.jsonl")
        write = partial(data_files.write_unlabelled, path, name, data, most)
        return [str(path.resolve())], self._once(path, write)

    def _ensemble(self, name: str, data: DistillDataConfig, keys: Keys) -> str:
        """Add the teachers of a data set, which all arms that name the ensemble share; return the
        name of the job that lists and evaluates them.
        """
        place = Path("teachers") / f"{name}-{data.dataset}"
        if place.as_posix() in self.jobs:
            return place.as_posix()
        config = self.config
        made = TeachersConfig(
            **self._shared(config.training, place),
            seed=config.seed + TEACHER_SEED,
            init=config.init,
            optimizer=config.optimizer,
            data=as_base(FinetuneDataConfig, data),
            num_teachers=config.distillation.num_teachers or 3,
        )
        chosen = {k: v for k, v in keys.items() if k not in ("data.dataset", "init")}
        ensemble = override(made, {**chosen, **config.compared.ensembles[name]})
        after = tuple(self._add("finetune", single) for single in single_teachers(ensemble))
        return self._add("teachers", ensemble, after)

    # Stages before the trainings that score an arm.

    def _stage(
        self, arm: ArmConfig, number: int, place: Path, seed: int, init: str, after: bool
    ) -> tuple[RunConfig, tuple[str, ...]]:
        """Return the configuration of a stage, and the jobs of its teachers."""
        stage = arm.stages[number]
        if stage.verb == "multitask":
            return self._mixture(stage, place / "multitask", seed, init)
        if not self.config.of_pretraining:
            return self._continued(stage, place / "pretrain", seed, init), ()
        config = self._budgeted(arm, number)
        place = place / f"stage-{number}"
        shared = self._shared(config.training, place) | {"seed": seed}
        if after:
            generator = config.generator.model_copy(update={"init": init})
            shared |= {"init": init, "generator": generator}
        return config.model_copy(update=shared), ()

    def _budgeted(self, arm: ArmConfig, number: int) -> PretrainConfig:
        """Return a pre-training of as many steps as its share of the budget, or that of the first
        arm, buys.
        """
        config = self.config
        if config.compared.equal == "steps":
            first = next(iter(config.compared.arms.values()))
            steps = self._affordable(first, 0)[1]
        else:
            steps = self._affordable(arm, number)[1]
        lengths = {"training.steps": steps, "training.save_every_steps": max(1, steps // 4)}
        warmup = {"optimizer.warmup_steps": max(1, steps // 10)}
        return override(self._affordable(arm, number)[0], lengths | warmup)

    def _affordable(self, arm: ArmConfig, number: int) -> tuple[PretrainConfig, int]:
        config = self.config
        stage = override(config.pretrain, arm.stages[number].keys)
        if stage.data.root is None:
            stage = override(stage, {"data.root": config.root})
        share = config.flops * arm.share / len(arm.stages)
        return stage, max(1, round(share / cost(stage).step_paper))

    def _mixture(
        self, stage: StageConfig, place: Path, seed: int, init: str
    ) -> tuple[RunConfig, tuple[str, ...]]:
        changes: dict[str, Any] = dict(stage.keys)
        taught: list[str] = []
        mixture = self.config.multitask
        shared = self._shared(mixture.training, place) | {"seed": seed, "init": init}
        shared["data"] = data = self._mixture_data()
        changes["data.batch_size"] = stage.batch_factor * data.batch_size
        if data.max_batch_tokens is not None:
            changes["data.max_batch_tokens"] = stage.batch_factor * data.max_batch_tokens
        if stage.teachers:
            store = self.config.run_dir / "store"
            hosting = {"host": self.config.distillation.host, "store": store}
            shared["distillation"] = mixture.distillation.model_copy(update=hosting)
            for dataset in mixture.data.datasets:
                source = to_dict(as_base(SourceConfig, data))
                batches = {
                    "batch_size": self.config.data.batch_size,
                    "epochs": self.config.data.epochs,
                }
                labelled = self.config.data.model_copy(
                    update=dict(DistillDataConfig(**source, dataset=dataset)) | batches
                )
                taught.append(self._ensemble(stage.teachers, labelled, {}))
                listed = str(self.jobs[taught[-1]].run_dir / "teachers.json")
                changes[f"distillation.teachers.{dataset}"] = listed
        return override(mixture.model_copy(update=shared), changes), tuple(taught)

    def _continued(self, stage: StageConfig, place: Path, seed: int, init: str) -> PretrainConfig:
        continued, config = self.config.continued, self.config
        text = continued.data.corpus
        if not text:
            name = next(iter(self._targets))
            path = self._file(f"{name}-text.jsonl")
            data_files.write_domain_text(path, name, config.data)
            text = str(path.resolve())
        data: dict[str, Any] = {"corpus": text, "shards": str(config.run_dir / "shards")}
        data["root"] = continued.data.root or config.data.root
        shared = self._shared(continued.training, place) | {"seed": seed, "init": init}
        shared["data"] = continued.data.model_copy(update=data)
        return override(continued.model_copy(update=shared), stage.keys)

    # Fields and files that trainings share.

    def _shared(self, training: Any, place: Path) -> dict[str, Any]:
        """Return the fields that every training has from the comparison."""
        config = self.config
        return {
            "run_dir": config.run_dir / place,
            "training": mirrored_below(training, place),
            "console": config.console,
            "tracking": config.tracking,
        }

    def _mixture_data(self) -> Any:
        data = self.config.multitask.data
        return data.model_copy(update={"root": data.root or self.config.data.root})

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the cached result of ``make`` for this key; all arms share it."""
        if key not in self.made:
            self.made[key] = make()
        return cast("T", self.made[key])

    def _file(self, name: str) -> Path:
        return self.config.run_dir / "rows" / name

    @cached_property
    def _num_layers(self) -> int:
        place = locate_model(model_directory(self.config.init), weights=False)
        return num_layers(read_config(place))


def as_base(kind: type[C], config: object) -> C:
    """Return a configuration, or a section of one, as one of its base classes."""
    return kind(**{name: getattr(config, name) for name in kind.model_fields})


def _teacher_keys(place: Path, members: int | None) -> dict[str, Any]:
    """Return the keys that name the teachers: all of the ensemble, or its first ones."""
    if members is None:
        return {"distillation.teachers": [str(place / "teachers.json")]}
    chosen = [str(place / f"teacher-{number}" / "hf") for number in range(members)]
    return {"distillation.teachers": chosen, "distillation.num_teachers": members}
