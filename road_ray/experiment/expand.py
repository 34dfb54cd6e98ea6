"""Jobs of an experiment: its ensembles of teachers, and the trainings of each arm and seed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from road_ray.config import override
from road_ray.config.base import as_base
from road_ray.data.config import SourceConfig
from road_ray.data.examples import SpanExample
from road_ray.data.load_split import find_dataset, read_examples, read_unlabelled_rows, root_of
from road_ray.data.model_files import locate_model, read_config
from road_ray.data.training_rows import REST
from road_ray.errors import ConfigError
from road_ray.experiment.config import ArmConfig, ReproduceConfig, StageConfig
from road_ray.models.architectures import num_layers
from road_ray.models.encoder import model_directory
from road_ray.recipes.config import CombineConfig, EvaluateDataConfig, RunConfig
from road_ray.recipes.preflight_checks import check_evaluated_once, require_init, require_splits
from road_ray.recipes.pretraining.preview import flops_per_step
from road_ray.recipes.several_runs import single_teachers
from road_ray.recipes.train.config import (
    DistillConfig,
    DistillDataConfig,
    FinetuneConfig,
    FinetuneDataConfig,
    MultitaskDataConfig,
    TeachersConfig,
)
from road_ray.system.files import write_atomic
from road_ray.training.config import TrainingConfig

TEACHER_SEED = 1000  # added to ``seed``, so that no teacher shares the seed of a student


@dataclass(frozen=True)
class Job:
    """One run. It begins when the jobs named in ``after`` have ended, and is skipped if
    one of them failed.
    """

    name: str  # directory below that of the experiment
    config: RunConfig
    after: tuple[str, ...] = ()
    arm: str = ""  # of which the metrics are a part, if it is ``scored``
    scored: bool = False


class Experiment:
    """All jobs of an experiment, each after those that it needs."""

    def __init__(self, config: ReproduceConfig) -> None:
        """Make the jobs, and write the text of a domain that they train on.

        Raises ``ConfigError`` for a missing ``init``, ``DataError`` for missing files.
        """
        self.config = config
        self.arms = chosen_arms(config)
        self.targets = _targets(config)  # data sets that score the arms
        self.seeds = range(config.seed, config.seed + config.num_seeds)  # of every arm
        self.jobs: dict[str, Job] = {}  # by name, each after those that it needs
        self._epochs: dict[str, float] = {}  # of a target, with the updates of unlabelled rows too
        if not self.targets:
            raise ConfigError(
                "data.dataset is not given, and the experiment names no targets\n"
                "  fix: data.dataset=NAME of `road data list`, or targets={NAME: {}, ...}"
            )
        if not config.of_pretraining:
            require_init(config.init)
        sections = [self._data(name) for name in self.targets]
        check_evaluated_once((data.dataset, data.evaluated_on) for data in sections)
        needed = [split for data in sections for split in data.splits()]
        if any(stage.verb == "multitask" for arm in self.arms.values() for stage in arm.stages):
            needed += self._mixture_data().splits()
        # Else the first error would come after trainings that need other data sets.
        require_splits(
            needed,
            "name the data sets that are there: data.dataset=..., targets={...} or "
            "multitask.data.datasets=[...]",
        )
        for name in self.arms:  # one that another starts from comes before it
            for seed in self.seeds:
                self._arm(name, seed)

    def of_arm(self, arm: str, seed: int) -> list[Job]:
        """Return the jobs of one arm with one seed."""
        return [job for job in self.jobs.values() if (job.arm, job.config.seed) == (arm, seed)]

    @property
    def ensembles(self) -> list[TeachersConfig]:
        """Ensembles of teachers."""
        configs = [job.config for job in self.jobs.values()]
        return [config for config in configs if isinstance(config, TeachersConfig)]

    def _add(self, name: str, config: RunConfig, after: Sequence[str], **more: Any) -> str:
        """Add a job unless it is there, and return its name."""
        self.jobs.setdefault(name, Job(name, config, tuple(after), **more))
        return name

    def _arm(self, name: str, seed: int) -> str:
        """Add the jobs of an arm with one seed; return the name of the last one."""
        arm = self.arms[name]
        after = [self._arm(arm.start_from, seed)] if arm.start_from else []
        for number, stage in enumerate(arm.stages):
            at = f"{name}/seed-{seed}/stage-{number}"
            make = self._mixture if stage.verb == "multitask" else self._pretraining
            config, taught = make(stage, at, arm, seed, after)
            after = [self._add(at, config, [*after, *taught], arm=name)]
        for target in self.targets:
            at = f"{name}/seed-{seed}/{target if len(self.targets) > 1 else 'student'}"
            score = self._combination if arm.combine else self._student
            config, taught = score(target, at, arm, seed, after)
            self._add(at, config, [*after, *taught], arm=name, scored=True)
        return at

    def _student(
        self, target: str, at: str, arm: ArmConfig, seed: int, after: Sequence[str]
    ) -> tuple[RunConfig, list[str]]:
        """Return the training that scores an arm on a data set, and the job of its teachers."""
        config, data = self.config, self._data(target)
        fields = self._shared(config.training, at, seed, after)
        fields |= {"optimizer": config.optimizer, "student": config.student}
        changes: dict[str, Any] = {"data.dataset": target, **self.targets[target]}
        if arm.layers != 1.0:
            place = locate_model(model_directory(config.init), weights=False)
            changes["student.layers"] = max(1, round(num_layers(read_config(place)) * arm.layers))
        if arm.unlabelled or arm.as_many_updates:
            files = data.unlabelled or (REST,)
            if target not in self._epochs:
                self._epochs[target] = epochs_of_all(data, files)
            if arm.as_many_updates:
                changes["data.epochs"] = self._epochs[target]
            else:
                changes["data.unlabelled"] = files
        if not arm.teachers:
            plain = FinetuneConfig(**fields, data=as_base(FinetuneDataConfig, config.data))
            return override(plain, changes | arm.keys), []
        if not arm.unlabelled:
            changes["data.unlabelled"] = ()
        ensemble = self._ensemble(arm.teachers, data, self.targets[target], seed)
        place, made = config.run_dir / ensemble, self.jobs[ensemble].config
        assert isinstance(made, TeachersConfig)
        changes["distillation.num_teachers"] = arm.members or made.num_teachers
        if arm.members and (made.num_folds > 1 or arm.members > made.num_teachers):
            raise ConfigError(
                f"{at}: members = {arm.members}: {arm.teachers} has fewer teachers, or folds\n"
                "  fix: leave members out, or a larger distillation.num_teachers"
            )
        first = [f"teacher-{number}/hf" for number in range(arm.members or 0)]
        changes["distillation.teachers"] = [str(place / x) for x in first or ["teachers.json"]]
        changes["distillation.store"] = str(config.run_dir / "store")
        taught = {"distillation": config.distillation, "weighting": config.weighting}
        if config.max_concurrent:  # runs in parallel have no room for actors beside them
            changes["distillation.host"] = "process"
        student = DistillConfig(**fields, **taught, data=config.data)
        return override(student, changes | arm.keys), [ensemble]

    def _combination(
        self, target: str, at: str, arm: ArmConfig, seed: int, after: Sequence[str]
    ) -> tuple[RunConfig, list[str]]:
        """Return the evaluation of an arm's joined teachers on a data set, and their job."""
        data = self._data(target)
        ensemble = self._ensemble(arm.teachers, data, self.targets[target], seed)
        config = CombineConfig(
            run_dir=self.config.run_dir / at,
            seed=seed,
            console=self.config.console,
            init=str(self.config.run_dir / ensemble / "teachers.json"),
            tune_threshold_on=target,
            data=EvaluateDataConfig(
                datasets=data.evaluated_on, **vars(as_base(SourceConfig, data))
            ),
            combine=arm.combine,
        )
        return config, [ensemble]

    def _ensemble(
        self, name: str, data: DistillDataConfig, keys: Mapping[str, Any], seed: int, of: str = ""
    ) -> str:
        """Add the teachers of a data set, which all arms that name the ensemble share, those of
        every seed unless teachers are combined; return the name of the job that lists and evaluates
        them.
        """
        config, at = self.config, f"teachers/{of}{name}-{data.dataset}"
        first = config.seed + TEACHER_SEED
        if any(arm.combine for arm in config.experiment.arms.values()):
            at, first = f"{at}-{seed}", first + TEACHER_SEED * (seed - config.seed)
        if at not in self.jobs:
            made = TeachersConfig(
                **self._shared(config.training, at, first, []),
                optimizer=config.optimizer,
                data=as_base(FinetuneDataConfig, data),
                num_teachers=config.distillation.num_teachers or 3,
            )
            own = {key: keys[key] for key in keys if key not in ("data.dataset", "init")}
            ensemble = override(made, own | config.experiment.ensembles[name])
            singles = {
                single.run_dir.relative_to(config.run_dir).as_posix(): single
                for single in single_teachers(ensemble)
            }
            after = [self._add(one, single, []) for one, single in singles.items()]
            self._add(at, ensemble, after)
        return at

    def _pretraining(
        self, stage: StageConfig, at: str, arm: ArmConfig, seed: int, after: Sequence[str]
    ) -> tuple[RunConfig, list[str]]:
        """Return a pre-training of new weights at a share of the budget, or of ``init``."""
        config, data = self.config, self.config.pretrain.data
        fields = self._shared(config.pretrain.training, at, seed, after)
        changes: dict[str, Any] = {"data.root": data.root or config.data.root}
        lengths: dict[str, Any] = {}
        if config.of_pretraining:
            first = next(arm for arm in config.experiment.arms.values() if arm.stages)
            same_steps = config.experiment.equal == "steps"  # as the budget buys the first arm
            bought, priced = (first, first.stages[0]) if same_steps else (arm, stage)
            cost = flops_per_step(override(config.pretrain, changes | priced.keys))
            share = config.flops * bought.share / len(bought.stages)
            steps = max(1, round(share / cost))
            lengths = {"training.steps": steps, "training.save_every_steps": max(1, steps // 4)}
            lengths["optimizer.warmup_steps"] = max(1, steps // 10)
            if after:
                changes["generator.init"] = fields["init"]
        else:
            changes["encoder.family"] = "init"
            changes["data.corpus"] = data.corpus or self._text_of(next(iter(self.targets)))
            changes["data.shards"] = data.shards or config.run_dir / "shards"
        fields["init"] = fields["init"] or config.pretrain.init
        made = config.pretrain.model_copy(update=fields)
        return override(made, changes | stage.keys | lengths), []

    def _text_of(self, name: str) -> str:
        """Write the training texts of a data set, each once, as a corpus, and return its path."""
        path = (self.config.run_dir / "rows" / f"{name}-text.jsonl").resolve()
        rows = examples_of(name, self.config.data)
        # A context stands there once, not with every question.
        texts = (x.context if isinstance(x, SpanExample) else " ".join(x.texts) for x in rows)
        content = "".join(f"{json.dumps({'text': text})}\n" for text in dict.fromkeys(texts))
        # A corpus that is written again while runs read it would end them.
        if not path.is_file() or path.read_text(encoding="utf-8") != content:
            write_atomic(path, content)
        return str(path)

    def _mixture(
        self, stage: StageConfig, at: str, _: ArmConfig, seed: int, after: Sequence[str]
    ) -> tuple[RunConfig, list[str]]:
        """Return a multi-task training, and the jobs of its teachers."""
        config, mixture, data = self.config, self.config.multitask, self._mixture_data()
        fields = self._shared(mixture.training, at, seed, after) | {"data": data}
        changes: dict[str, Any] = {"data.batch_size": stage.batch_factor * data.batch_size}
        taught = []
        for dataset in data.datasets if stage.teachers else ():
            own = {"batch_size": config.data.batch_size, "epochs": config.data.epochs}
            learnt = vars(as_base(SourceConfig, data)) | own
            of_dataset = DistillDataConfig(dataset=dataset, **learnt)
            # Apart from those of students, who may have other rows and lengths.
            ensemble = self._ensemble(stage.teachers, of_dataset, {}, seed, "mixture-")
            taught.append(ensemble)
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
        shared = self.config.data
        sets = {**shared.sets, **data.sets}
        return data.model_copy(update={"root": data.root or shared.root, "sets": sets})

    def _shared(
        self, training: TrainingConfig, at: str, seed: int, after: Sequence[str]
    ) -> dict[str, Any]:
        """Return the fields that every training has from the experiment. It starts from the model
        of the last of the jobs ``after`` which it comes, or from ``init``.
        """
        config = self.config
        return {
            "seed": seed,
            "init": str(config.run_dir / after[-1]) if after else config.init,
            "run_dir": config.run_dir / at,
            "training": training.mirrored_below(Path(at)),
            "console": config.console,
            "tracking": config.tracking,
        }


def chosen_arms(config: ReproduceConfig) -> dict[str, ArmConfig]:
    """Return the configured arms with those that they need or are tested against, in order."""
    every, selected = config.experiment.arms, list(config.arms)
    for name in selected:  # grows while it is read
        needed = (*(every[name].against or (next(iter(every)),)), every[name].start_from)
        selected += [other for other in needed if other and other not in selected]
    return {name: arm for name, arm in every.items() if not selected or name in selected}


def _targets(config: ReproduceConfig) -> dict[str, dict[str, Any]]:
    """Return the data sets that score the arms, each with the keys in which it differs."""
    if config.targets is not None:
        return config.targets
    if config.data.dataset:
        return {config.data.dataset: {}}
    given = "" if config.data.evaluate_on is None else "data.evaluate_on"
    return {
        name: {key: value for key, value in keys.items() if key != given}
        for name, keys in config.experiment.targets.items()
    }


def examples_of(name: str, source: SourceConfig, split: str = "train") -> list[Any]:
    """Return the examples of a split."""
    return read_examples(find_dataset(name, source)[0], split, root_of(name, source))


def epochs_of_all(data: DistillDataConfig, files: Sequence[str]) -> float:
    """Return the epochs over the labelled rows alone that make as many updates as ``data.epochs``
    over these and the rows of ``files``.
    """
    count = len(examples_of(data.dataset, data))
    labelled = min(count, data.max_rows or count)
    unlabelled = len(read_unlabelled_rows(files, data.dataset, data))
    return data.epochs * (labelled + unlabelled) / labelled
