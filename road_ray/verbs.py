"""The verbs that run something: which configuration each takes, and how preset, file and overrides
become one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from road_ray.config import Config, flatten, load, override, preset_named_in, to_dict
from road_ray.config.fields import field_at
from road_ray.config.yaml import read_yaml
from road_ray.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from road_ray.recipes.run_directory.run import Run
    from road_ray.training.context import RunContext


@dataclass(frozen=True)
class Verb:
    """A verb: its configuration class and its recipe, each as ``module:name`` below ``recipes``."""

    name: str
    about: str
    config_at: str
    recipe_at: str
    word: str = ""  # key that a first word of the command line sets, if it is no file

    @property
    def config(self) -> type[Config]:
        """The configuration class."""
        return cast("type[Config]", _named(f"recipes.{self.config_at}"))

    @property
    def run(self) -> Callable[..., Run]:
        """The recipe: configuration in, run out."""
        return cast("Callable[..., Run]", _named(f"recipes.{self.recipe_at}"))


def _named(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(f"road_ray.{module}"), name)


VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb(
            "pretrain",
            "pre-train an encoder on a text corpus (ELECTRA and its line)",
            "pretraining.config:PretrainConfig",
            "pretraining.pretrain:pretrain",
        ),
        Verb(
            "multitask",
            "train one encoder on a mix of data sets, one head per task",
            "multitask.config:MultitaskConfig",
            "multitask.multitask:multitask",
        ),
        Verb(
            "finetune",
            "fine-tune a model on a data set, or on several with N seeds",
            "finetuning.config:FinetuningsConfig",
            "finetuning.many:finetune",
        ),
        Verb(
            "teachers",
            "fine-tune teachers that differ in their seed; list them",
            "finetuning.config:TeachersConfig",
            "finetuning.teachers:teachers",
        ),
        Verb(
            "distill",
            "train a student on the answers of an ensemble of teachers",
            "distillation.config:DistillConfig",
            "distillation.distill:distill",
        ),
        Verb(
            "evaluate",
            "evaluate a trained model on one or more data sets",
            "config:EvaluateConfig",
            "evaluate:evaluate",
        ),
        Verb(
            "reproduce",
            "repeat a published comparison at your scale",
            "comparison.config:ReproduceConfig",
            "comparison.reproduce:reproduce",
            word="comparison",
        ),
        Verb(
            "demo",
            "run all stages at miniature scale, in a few minutes",
            "config:DemoConfig",
            "demo:demo",
        ),
    )
}


# Files with a configuration of their own: a search space, and a cluster profile.
_FILES = {
    "sweep": "recipes.sweep.config:SweepConfig",
    "submit": "distributed.jobs.cluster_profile:Profile",
}
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
    return cast("type[Config]", _named(_FILES[name]))


def verb_of_file(path: Path) -> str:
    """Return the verb of a YAML file: that of its preset, else the first that has all its keys."""
    if (named := preset_named_in(path)) is not None:
        from road_ray.presets import named as preset_named

        return preset_named(named).verb
    keys = [tuple(key.split(".")[:2]) for key in flatten(read_yaml(path).values)]
    fitting = (name for name in VERBS if all(field_at(VERBS[name].config, k) for k in keys))
    return min(fitting, key=lambda name: name != "finetune", default="finetune")


def configure(
    verb: str,
    *,
    preset: str | None = None,
    path: Path | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
) -> Config:
    """The configuration of a verb: its defaults or a preset, over it a YAML file, over that the
    overrides.

    Raises ``ConfigError`` with every mistake; nothing has started then.
    """
    named = preset or (preset_named_in(path) if path else None)
    base: dict[str, Any] = {}
    kind = VERBS[verb].config
    if named is not None:
        from road_ray.presets import named as preset_named

        found = preset_named(named, verb)
        if found.verb != verb:
            from road_ray.presets import PRESETS

            own = sorted(one.name for one in PRESETS.values() if one.verb == verb)
            raise ConfigError(
                f"preset {named!r} is of `road {found.verb}`, not of `road {verb}`"
                f"{did_you_mean(named, own)}\n  allowed: {', '.join(own) or 'none'}\n"
                f"  fix: road {found.verb} --preset {named}"
            )
        base = to_dict(found.make())
    config = load(kind, base=base, path=path, overrides=overrides)
    tokenizer = base.get("data", {}).get("tokenizer")
    values = to_dict(config) if tokenizer is not None else {}
    if values.get("init") and values["data"]["tokenizer"] == tokenizer:
        return override(config, {"data.tokenizer": None})  # the preset's yields to that of init
    return config


# What a distillation calls its keys where there is no section to put them in.
_FLAT_NAMES = {
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


class VerbFunction(Protocol):
    """A verb as a Python function, such as ``road_ray.finetune``; see `perform`."""

    def __call__(
        self,
        config: Config | Path | str | None = None,
        *,
        preset: str | None = None,
        overrides: Sequence[str] | Mapping[str, Any] = (),
        context: RunContext | None = None,
        **named: Any,
    ) -> Run: ...


def perform(
    verb: str,
    config: Config | Path | str | None = None,
    *,
    preset: str | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    context: RunContext | None = None,
    **named: object,
) -> Run:
    """Run a verb from Python: a configuration, a YAML file or a preset, then overrides by dotted
    key, then keys of the top level by name (``init="runs/pretrain"``).

    ``distill`` also takes ``student``, ``task``, ``teachers`` (an ``Ensemble``, which stays its
    owner's, or directories), ``temperature``, ``kd_weight``, ``wrong`` and the other flat names.
    ``context`` is what the run knows of its surroundings; by default nothing.
    """
    if isinstance(config, Config):
        if not isinstance(overrides, Mapping):
            raise ConfigError("overrides of a configuration object must be a mapping: {'seed': 1}")
        chosen = override(config, overrides) if overrides else config
    else:
        path = None if config is None else Path(config)
        chosen = configure(verb, preset=preset, path=path, overrides=overrides)
    extra: tuple[Any, ...] = ()
    if verb == "distill":
        named, extra = _unflattened(named)
    return VERBS[verb].run(override(chosen, named) if named else chosen, *extra, context=context)


def _unflattened(named: Mapping[str, object]) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """The dotted keys of a distillation's flat names, and the teachers if they are in actors."""
    changes = {_FLAT_NAMES.get(name, name): value for name, value in named.items()}
    teachers: Any = named.get("teachers")
    members: Any = getattr(teachers, "inner", teachers)  # of the public Ensemble
    if hasattr(members, "handles"):
        del changes["distillation.teachers"]
        return changes, (members,)
    if hasattr(members, "stores"):
        changes |= {"distillation.store": str(teachers.store), "distillation.host": teachers.host}
        members = teachers.directories
    elif hasattr(members, "teachers"):
        changes["distillation.host"] = "process"
        members = [teacher.directory for teacher in members.teachers]
    if teachers is not None:
        names = [members] if isinstance(members, str | Path) else list(members)
        changes["distillation.teachers"] = [str(name) for name in names]
        if not (len(names) == 1 and str(names[0]).endswith(".json")):
            changes["distillation.num_teachers"] = len(names)
    return changes, ()
