"""Verbs that start a run: the configuration of each, merged from preset, file and overrides."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from road_ray.config import Config, flatten, load, override, preset_named_in, to_dict
from road_ray.config.schema import at, known_keys, schema_of
from road_ray.config.yaml_files import read_yaml
from road_ray.errors import ConfigError, did_you_mean
from road_ray.presets import get_preset

if TYPE_CHECKING:
    from road_ray.recipes.run_directory.run import Run
    from road_ray.training.run_context import RunContext


@dataclass(frozen=True)
class Verb:
    """A verb: its configuration class and its recipe, each as ``module:name``."""

    name: str
    about: str
    config_at: str
    recipe_at: str
    word: str = ""  # key that the first word of the command line sets, if it is not a file
    file: str = ""  # key that a file other than a configuration sets
    example: str = "data.epochs=2"  # an override, for the help
    run_dir: str = ""  # default of ``run_dir`` where it is not ``runs/NAME``, for the help
    next: str = "road predict {run} FILE"  # the command that usually follows
    arguments: str = ""  # of an example in Python; those of the docstrings follow each other

    @property
    def config(self) -> type[Config]:
        """The configuration class."""
        return cast("type[Config]", resolve_name(f"road_ray.{self.config_at}"))

    @property
    def docstring(self) -> str:
        """Text of ``help(road_ray.VERB)``."""
        about = textwrap.fill(f"{self.about[0].upper()}{self.about[1:]}.", 90)
        given = textwrap.indent(self.arguments, "    ")
        call = f"run = rr.{self.name}(\n{given}\n)".replace("\n", "\n... ")
        return f"{about}\n\n>>> import road_ray as rr\n>>> {call}"

    def following(self, directory: Path, given: Sequence[str] = (), *, has_model: bool) -> str:
        """Return the command that usually follows a run; several runs of one have no model.
        ``given`` is the YAML file and the overrides of the run.
        """
        needs_model = "init={run}" in self.next or "predict {run}" in self.next
        command = "road report {run}" if needs_model and not has_model else self.next
        repeated = ("data.", "init=", "optimizer.")  # a student of another size names its own
        kept = [word for word in given if "=" not in word or word.startswith(repeated)]
        same = " ".join(map(shlex.quote, kept or ["init=MODEL"]))
        return command.format(run=shlex.quote(str(directory)), same=same)

    @property
    def run(self) -> Callable[..., Run]:
        """The recipe: configuration in, run out."""
        return cast("Callable[..., Run]", resolve_name(f"road_ray.{self.recipe_at}"))


VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb(
            "pretrain",
            "pre-train an encoder on a text corpus (ELECTRA and its successors)",
            "recipes.pretraining.config:PretrainConfig",
            "recipes.pretraining.pretrain:pretrain",
            example="training.steps=1000",
            next="road finetune init={run} data.dataset=NAME",
            arguments='preset="tiny_electra", run_dir="runs/encoder",\n'
            'data={"root": "miniature", "max_length_tokens": 32}, training={"steps": 2},',
        ),
        Verb(
            "multitask",
            "train one encoder on a mix of data sets, one head per task",
            "recipes.train.config:MultitaskConfig",
            "recipes.train.train:run_training",
            example="training.steps=1000",
            next="road finetune init={run} data.dataset=NAME",
            arguments='init="runs/encoder", run_dir="runs/mixture", training={"steps": 2},\n'
            'data={"root": "miniature", "datasets": ["sst2", "mnli"], "max_judged_rows": 16},',
        ),
        Verb(
            "finetune",
            "fine-tune a model on one data set (`data.dataset`), or separately on each of several "
            "(`pool`), with `num_seeds` seeds each",
            "recipes.train.config:FinetuningsConfig",
            "recipes.several_runs:finetune",
            arguments='init="runs/encoder", run_dir="runs/finetune", training={"steps": 2},\n'
            'data={"root": "miniature", "dataset": "sst2", "max_judged_rows": 16},',
        ),
        Verb(
            "teachers",
            "fine-tune teachers with different seeds for `road distill`. "
            "`teachers.json` lists them",
            "recipes.train.config:TeachersConfig",
            "recipes.several_runs:teachers",
            next="road distill {same} distillation.teachers={run}/teachers.json "
            "run_dir=runs/distill",
            arguments='init="runs/encoder", run_dir="runs/teachers", training={"steps": 2},\n'
            'num_teachers=2, data={"root": "miniature", "dataset": "sst2", "max_judged_rows": 16},',
        ),
        Verb(
            "distill",
            "train a student on the answers of an ensemble of teachers",
            "recipes.train.config:DistillConfig",
            "recipes.several_runs:distill",
            arguments='student="runs/encoder", task="sst2", run_dir="runs/student",\n'
            'teachers="runs/teachers/teachers.json", host="process", training={"steps": 2},\n'
            'data={"root": "miniature", "max_judged_rows": 16},',
        ),
        Verb(
            "evaluate",
            "evaluate a trained model on the data set of its training, on a labelled file of the "
            "same columns, or on other data sets",
            "recipes.config:EvaluateConfig",
            "recipes.evaluate:evaluate",
            word="init",
            file="data.file",
            example="data.split=test",
            run_dir="runs/evaluate/{name}",
            next="road runs show {run}",
            arguments='init="runs/student", run_dir="runs/evaluated",',
        ),
        Verb(
            "reproduce",
            "repeat a published comparison with your model and data",
            "experiment.config:ReproduceConfig",
            "experiment.run:reproduce",
            word="comparison",
            example="seed=1",
            next="road runs list {run}",
            arguments='init="runs/encoder", run_dir="runs/rates", training={"steps": 2},\n'
            'experiment={"arms": {"slow": {"keys": {"optimizer.peak_lr": 1e-5}}, "fast": {}}},\n'
            'data={"root": "miniature", "dataset": "sst2", "max_judged_rows": 16}, num_seeds=2,',
        ),
        Verb(
            "demo",
            "run all stages at miniature scale, in a few minutes",
            "recipes.config:DemoConfig",
            "experiment.run:demo",
            example="num_seeds=2",
            next="road init FILE",
            arguments='run_dir="runs/demo",  # doctest: +SKIP',
        ),
    )
}


# Files with a configuration of their own: a search space, and a cluster profile.
_FILES = {"sweep": "recipes.sweep.config:SweepConfig", "submit": "distributed.job_client:Profile"}
CONFIGURABLE = (*VERBS, *_FILES)


def configuration_class(name: str) -> type[Config]:
    """Return the configuration class of a verb, of a sweep file or of a cluster profile.

    Raises ``ConfigError`` naming the nearest verb that has one.
    """
    if name in VERBS:
        return VERBS[name].config
    if name not in _FILES:
        raise ConfigError(
            f"{name!r} has no configuration{did_you_mean(name, CONFIGURABLE)}\n"
            f"  allowed: {', '.join(CONFIGURABLE)}"
        )
    return cast("type[Config]", resolve_name(f"road_ray.{_FILES[name]}"))


def keys_of(verbs: Iterable[str]) -> list[str]:
    """Return the keys of verbs, those that most of them have first."""
    found = Counter(k for verb in verbs for k in known_keys(schema_of(configuration_class(verb))))
    return [key for key, _ in found.most_common()]


def verb_of_file(path: Path) -> str:
    """Return the verb of a YAML file: that of its preset, else the first that has all its keys."""
    if (preset := preset_named_in(path)) is not None:
        return get_preset(preset).verb
    keys = [tuple(key.split(".")[:2]) for key in flatten(read_yaml(path).values)]
    fitting = (name for name in VERBS if all(at(VERBS[name].config, k) is not None for k in keys))
    return min(fitting, key=lambda name: name != "finetune", default="finetune")


def configure(
    verb: str,
    *,
    preset: str | None = None,
    path: Path | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    keys: Mapping[str, object] = MappingProxyType({}),
) -> Config:
    """Return the configuration of a verb: its defaults or a preset, overridden by a YAML file,
    overridden by ``overrides``, overridden by ``keys``.

    Raises ``ConfigError`` with every mistake, before anything starts.
    """
    base: dict[str, Any] = {}
    kind = VERBS[verb].config
    overrides = [overrides] if isinstance(overrides, str) else overrides
    if verb == "evaluate" and path and "data.dataset" in flatten(read_yaml(path).values):
        trained: Any = configure(verb_of_file(path), path=path)  # the file of a training
        base, path = {"init": str(trained.run_dir)}, None
        given = {word.partition("=")[0].strip() for word in (*overrides, *keys)}
        if "init" in given:  # another model
            known = type(kind.model_fields["data"].default).model_fields
            data = trained.data.model_dump(mode="json", exclude_defaults=True)
            base = {"data": {name: x for name, x in data.items() if name in known}}
            base["data"]["datasets"] = [trained.data.dataset]
    name = preset or (preset_named_in(path) if path else None)
    if name is not None:
        base = get_preset(name, verb).values()
    if verb == "reproduce":
        from road_ray.experiment.config import comparison_named

        base |= comparison_named(path, overrides, keys)
    config = load(kind, base=base, path=path, overrides=overrides, keys=keys)
    if base.get("data", {}).get("tokenizer") is not None and to_dict(config).get("init"):
        base["data"]["tokenizer"] = None  # that of init replaces the preset's
        config = load(kind, base=base, path=path, overrides=overrides, keys=keys)
    return config


def preset_config(name: str) -> Config:
    """Return the whole configuration of a preset."""
    return configure(get_preset(name).verb, preset=name)


# Keys of a distillation by their names as keyword arguments, which have no sections.
FLAT_NAMES = {
    "student": "init",
    "task": "data.dataset",
    "teachers": "distillation.teachers",
    **{
        name: f"distillation.{name}"
        for name in (
            *("num_teachers", "host", "lookahead", "temperature", "kd_weight"),
            *("schedule", "average_loss", "generations"),
        )
    },
    **{name: f"weighting.{name}" for name in ("rule", "wrong", "all_wrong", "span_correctness")},
}


def perform(
    verb: str,
    config: Config | Path | str | None = None,
    *,
    preset: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    context: RunContext | None = None,
    **keys: object,
) -> Run:
    """Run a verb from Python with a configuration, a YAML file or a preset, changed by overrides
    with dotted keys, and then by keys of the top level by name (``init="runs/pretrain"``).

    ``distill`` also takes ``student``, ``task``, ``teachers`` (directories, or an ``Ensemble``,
    which the caller closes), ``temperature``, ``kd_weight``, ``wrong`` and the other flat names.
    ``context`` describes the surroundings of the run; by default there are none.
    """
    extra: tuple[Any, ...] = ()
    if verb == "distill":
        keys, extra = _unflattened(keys)
    if isinstance(config, Config):
        chosen = override(override(config, overrides), keys)
    else:
        path = None if config is None else Path(config)
        chosen = configure(verb, preset=preset, path=path, overrides=overrides, keys=keys)
    return VERBS[verb].run(chosen, *extra, context=context)


def _unflattened(keys: Mapping[str, object]) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return the dotted keys of a distillation's flat names, and an ensemble of actors."""
    changes = {FLAT_NAMES.get(name, name): value for name, value in keys.items()}
    teachers: Any = keys.get("teachers")
    if (host := getattr(teachers, "host", None)) is not None:  # the public Ensemble
        changes = {f"distillation.{name}": x for name, x in teachers.settings.items()} | changes
        if host == "actors" and teachers.store is None:
            del changes["distillation.teachers"]
            return changes, (teachers.inner,)
        teachers = teachers.directories
    if teachers is not None:
        names = [teachers] if isinstance(teachers, str | Path) else teachers
        changes["distillation.teachers"] = [str(name) for name in names]
    return changes, ()
