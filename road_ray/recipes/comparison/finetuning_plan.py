"""Configurations of a comparison: its ensembles of teachers, and the trainings of each arm and
seed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar, cast

from road_ray.config import override, to_dict
from road_ray.data.config import SourceConfig
from road_ray.data.load_split import read_unlabelled_rows
from road_ray.data.model_files.locate_model import locate_model
from road_ray.data.model_files.remote_code import read_config
from road_ray.models.encoder import model_directory
from road_ray.models.encoder_layers import num_layers
from road_ray.recipes.comparison import arm_data_files
from road_ray.recipes.comparison.config import ReproduceConfig
from road_ray.recipes.comparison.finetuning_arms import COMPARISONS, Arm, Comparison, Keys, Stage
from road_ray.recipes.config import RunConfig
from road_ray.recipes.distillation.config import DistillConfig, DistillDataConfig
from road_ray.recipes.finetuning.config import FinetuneConfig, FinetuneDataConfig, TeachersConfig
from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.preflight_checks import check_evaluated_once, require_init, require_splits
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.run_directory.resume_identity import mirrored_below

T = TypeVar("T")
TEACHER_SEED = 1000  # added to ``seed``, so that no teacher shares the seed of a student


@dataclass(frozen=True)
class Job:
    """One training of an arm; those that are ``scored`` give its figures."""

    verb: str
    config: RunConfig
    scored: bool


@dataclass(frozen=True)
class Unit:
    """One arm with one seed: its trainings, which run one after another."""

    arm: str
    seed: int
    jobs: tuple[Job, ...]


@dataclass(frozen=True)
class Plan:
    """Everything that a comparison runs, in order: ensembles, then units."""

    comparison: Comparison
    arms: tuple[Arm, ...]
    targets: Mapping[str, Keys]
    ensembles: tuple[TeachersConfig, ...]
    units: tuple[Unit, ...]

    def ensembles_of(self, config: RunConfig) -> list[TeachersConfig]:
        """Return the ensembles that teach in a training."""
        if isinstance(config, DistillConfig):
            named = [*config.distillation.teachers]
        elif isinstance(config, MultitaskConfig):
            lists = config.distillation.teachers.values()
            named = [t for ts in lists for t in ([ts] if isinstance(ts, str) else ts)]
        else:
            return []
        return [e for e in self.ensembles if any(_is_inside(e.run_dir, name) for name in named)]

    def needed_by(self, unit: Unit) -> list[TeachersConfig]:
        """Return the ensembles that teach in any training of an arm with one seed."""
        return [ensemble for job in unit.jobs for ensemble in self.ensembles_of(job.config)]

    @property
    def distillations(self) -> list[DistillConfig]:
        """One distillation for each set of teachers and rows, for filling the store."""
        configs: dict[str, DistillConfig] = {}
        for unit in self.units:
            for job in unit.jobs:
                if isinstance(job.config, DistillConfig):
                    data, teachers = job.config.data, job.config.distillation.teachers
                    key = str((teachers, data.dataset, data.unlabelled))
                    configs.setdefault(key, job.config)
        return list(configs.values())


def make_plan(config: ReproduceConfig) -> Plan:
    """Return the plan of a comparison and write the data files that it shares.

    Raises ``ConfigError`` for a missing ``init``, ``DataError`` for missing files.
    """
    return _Planner(config).plan()


class _Planner:
    """Makes the configurations of a comparison."""

    def __init__(self, config: ReproduceConfig) -> None:
        require_init(config.init)
        self.config = config
        self.comparison = COMPARISONS[config.comparison]
        names = {"max_rows": config.data.max_rows or self.comparison.max_rows}
        self.data = config.data.model_copy(update=names)
        self.ensembles: dict[Path, TeachersConfig] = {}
        self.made: dict[Hashable, object] = {}

    def plan(self) -> Plan:
        targets, arms = self._targets(), self._arms()
        self._require_data(targets)
        seeds = range(self.config.seed, self.config.seed + self.config.num_seeds)
        units = tuple(self._unit(arm, seed, targets) for arm in arms for seed in seeds)
        return Plan(self.comparison, arms, targets, tuple(self.ensembles.values()), units)

    def _arms(self) -> tuple[Arm, ...]:
        """Return the configured arms, with those that they are tested against, in their order."""
        every, selected = self.comparison.arms, list(self.config.arms)
        for name in selected:  # grows while it is read
            against = self.comparison.arm(name).against or (every[0].name,)
            selected += [other for other in against if other not in selected]
        return tuple(arm for arm in every if not selected or arm.name in selected)

    def _targets(self) -> dict[str, Keys]:
        if self.config.targets is not None:
            return dict(self.config.targets)
        if self.config.data.dataset:
            return {self.config.data.dataset: self._judged(self.config.data.dataset)}
        if self.comparison.targets:
            return dict(self.comparison.targets)
        return {self.comparison.dataset: self._judged(self.comparison.dataset)}

    def _judged(self, name: str) -> Keys:
        further = self.comparison.evaluate_on if name == self.comparison.dataset else ()
        if not further or self.config.data.evaluate_on is not None:
            return {}
        return {"data.evaluate_on": [name, *further]}

    def _require_data(self, targets: Mapping[str, Keys]) -> None:
        """Raise ``DataError`` if a data set has no files."""
        default = self.config.data.evaluate_on
        judged = {n: keys.get("data.evaluate_on", default or [n]) for n, keys in targets.items()}
        check_evaluated_once(judged.items())
        needed: dict[str, tuple[str, ...]] = {name: ("train",) for name in targets}
        for name in [name for names in judged.values() for name in names]:
            needed[name] = (*needed.get(name, ()), "dev")
        sources: dict[str, SourceConfig] = dict.fromkeys(needed, self.data)
        if any(arm.stage and arm.stage.verb == "multitask" for arm in self._arms()):
            mixture = self._mixture_data()
            sources |= dict.fromkeys(self.config.multitask.data.datasets, mixture)
            needed |= {name: ("train", "dev") for name in self.config.multitask.data.datasets}
        require_splits(
            ((name, split, sources[name]) for name, splits in needed.items() for split in splits),
            "name the data sets that are there: data.dataset=..., targets={...} or "
            "multitask.data.datasets=[...]",
        )

    # One arm with one seed.

    def _unit(self, arm: Arm, seed: int, targets: Mapping[str, Keys]) -> Unit:
        place = Path(arm.name) / f"seed-{seed}"
        jobs: list[Job] = []
        init = self.config.init
        if arm.stage is not None:
            stage = self._stage(arm.stage, place / arm.stage.verb, seed, next(iter(targets)))
            jobs.append(Job(arm.stage.verb, stage, scored=False))
            init = str(stage.run_dir)
        for name, keys in targets.items():
            inside = place / name if len(targets) > 1 else place / "student"
            student = self._student(arm, inside, seed, name, {"init": init, **keys})
            jobs.append(Job("distill" if arm.teachers else "finetune", student, scored=True))
        return Unit(arm.name, seed, tuple(jobs))

    def _student(
        self, arm: Arm, place: Path, seed: int, name: str, keys: Keys
    ) -> FinetuneConfig | DistillConfig:
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
        if arm.equal_steps or arm.unlabelled:
            own = self._data_of(name, keys)
            files, count = self._unlabelled(name, own)
            if arm.equal_steps:
                count_labelled = partial(arm_data_files.num_labelled, name, own)
                labelled = self._once(("labelled", name, own.max_rows), count_labelled)
                changes["data.epochs"] = data.epochs * (labelled + count) / labelled
            else:
                changes["data.unlabelled"] = files
        if not arm.teachers:
            plain = FinetuneConfig(**shared, data=as_base(FinetuneDataConfig, data))
            return override(plain, {**changes, **arm.keys})
        ensemble = self._ensemble(arm.teachers, data, keys)
        student = DistillConfig(
            **shared,
            data=as_base(DistillDataConfig, data),
            distillation=config.distillation,
            weighting=config.weighting,
        )
        changes |= _teacher_keys(ensemble, arm.members)
        changes["distillation.store"] = str(config.run_dir / "store")
        return override(student, {**changes, **arm.keys})

    def _data_of(self, name: str, keys: Keys) -> DistillDataConfig:
        """Return the data of the comparison with the keys of a target."""
        own = {key.removeprefix("data."): v for key, v in keys.items() if key.startswith("data.")}
        return override(self.data.model_copy(update={"dataset": name}), own)

    def _labels_of(self, arm: Arm, name: str, keys: Keys) -> DistillDataConfig:
        """Return the data of an arm: those of the comparison, or with wrong labels."""
        data = self._data_of(name, keys)
        if not arm.noise:
            return data
        noisy = f"{name}-noisy-{100 * arm.noise:g}"
        path = self._file(f"{noisy}-of-{data.max_rows or 'all'}.jsonl")
        entry = self._once(path, lambda: arm_data_files.write_noisy(path, name, data, arm.noise))
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
        labelled, most = data.max_rows or "no", self.data.max_unlabelled_rows
        path = self._file(f"{name}-{most or 'all'}-unlabelled-beyond-{labelled}-labelled.jsonl")
        write = partial(arm_data_files.write_unlabelled, path, name, data, most)
        return [str(path.resolve())], self._once(path, write)

    def _ensemble(self, name: str, data: DistillDataConfig, keys: Keys) -> TeachersConfig:
        """Return the teachers of a data set; all arms that name the ensemble share them."""
        place = Path("teachers") / f"{name}-{data.dataset}"
        if place in self.ensembles:
            return self.ensembles[place]
        config = self.config
        made = TeachersConfig(
            **self._shared(config.training, place),
            seed=config.seed + TEACHER_SEED,
            init=config.init,
            optimizer=config.optimizer,
            data=as_base(FinetuneDataConfig, data),
            num_teachers=config.distillation.num_teachers or 3,
            max_concurrent=config.max_concurrent,
            gpus_per_worker=config.gpus_per_worker,
            address=config.address,
            timeout_seconds=config.timeout_seconds,
        )
        chosen = {k: v for k, v in keys.items() if k not in ("data.dataset", "init")}
        self.ensembles[place] = override(made, {**chosen, **self.comparison.ensembles[name]})
        return self.ensembles[place]

    # Stages before the fine-tuning.

    def _stage(self, stage: Stage, place: Path, seed: int, name: str) -> RunConfig:
        if stage.verb == "pretrain":
            return self._pretraining(stage, place, seed, name)
        changes: dict[str, Any] = dict(stage.keys)
        mixture = self.config.multitask
        shared = self._shared(mixture.training, place) | {"seed": seed, "init": self.config.init}
        shared["data"] = data = self._mixture_data()
        changes["data.batch_size"] = stage.batch_factor * data.batch_size
        if data.max_batch_tokens is not None:
            changes["data.max_batch_tokens"] = stage.batch_factor * data.max_batch_tokens
        if stage.teachers:
            hosting = {"host": self.config.distillation.host, "store": self._store}
            shared["distillation"] = mixture.distillation.model_copy(update=hosting)
            for dataset in mixture.data.datasets:
                source = to_dict(as_base(SourceConfig, data))
                labelled = self.data.model_copy(
                    update=dict(DistillDataConfig(**source, dataset=dataset))
                    | {"batch_size": self.data.batch_size, "epochs": self.data.epochs}
                )
                ensemble = self._ensemble(stage.teachers, labelled, {})
                changes[f"distillation.teachers.{dataset}"] = str(
                    ensemble.run_dir / "teachers.json"
                )
        return override(mixture.model_copy(update=shared), changes)

    def _pretraining(self, stage: Stage, place: Path, seed: int, name: str) -> PretrainConfig:
        continued, config = self.config.continued, self.config
        text = config.domain_text
        if text is None:
            path = self._file(f"{name}-text.jsonl")
            arm_data_files.write_domain_text(path, name, self.data)
            text = str(path.resolve())
        data: dict[str, Any] = {"corpus": text, "shards": str(config.run_dir / "shards")}
        data["root"] = continued.data.root or config.data.root
        shared = self._shared(continued.training, place) | {"seed": seed, "init": config.init}
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

    @property
    def _store(self) -> Path:
        return self.config.run_dir / "store"

    @cached_property
    def _num_layers(self) -> int:
        place = locate_model(model_directory(self.config.init), weights=False)
        return num_layers(read_config(place))


def as_base(kind: type[Any], config: object) -> Any:
    """Return a configuration, or a section of one, as one of its base classes."""
    return kind(**{name: getattr(config, name) for name in kind.model_fields})


def _teacher_keys(ensemble: TeachersConfig, members: int | None) -> dict[str, Any]:
    """Return the keys that name the teachers: all of the ensemble, or its first ones."""
    place = ensemble.run_dir
    if members is None:
        return {"distillation.teachers": [str(place / "teachers.json")]}
    chosen = [str(place / f"teacher-{number}" / "hf") for number in range(members)]
    return {"distillation.teachers": chosen, "distillation.num_teachers": members}


def _is_inside(directory: Path, teacher: str) -> bool:
    return Path(teacher).is_relative_to(directory)
