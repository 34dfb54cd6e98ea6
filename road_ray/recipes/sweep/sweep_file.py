"""Sweep files: loaded, with every mistake reported before the first trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from road_ray.config import Config, InvalidConfig, load, override
from road_ray.config import read as yaml_lines
from road_ray.config.merge import parse_override
from road_ray.config.messages import unknown_key
from road_ray.config.schema import Key, at
from road_ray.errors import Problem, nearest
from road_ray.recipes.metric_names import COSTS, final_metrics, periodic_metrics
from road_ray.recipes.sweep.config import SweepConfig, locate
from road_ray.recipes.sweep.stages import OWN, SECOND, base_config, split_by_stage
from road_ray.verbs import VERBS


def load_sweep(name: str | Path, overrides: Sequence[str] | Mapping[str, Any] = ()) -> SweepConfig:
    """Return the sweep of a file or a shipped name. Overrides are keys of the sweep (``trials=8``)
    or of its verb (``data.root=...``, short for ``overrides.data.root=...``).

    Raises ``InvalidConfig`` with the line of every mistake, before anything starts.
    """
    path = locate(name)
    written = yaml_lines.read_yaml(path)
    addressed = _addressed(overrides, written.values)
    config = load(SweepConfig, path=path, overrides=addressed)
    if not config.name:
        config = config.model_copy(update={"name": path.stem})
    lines: dict[Key, str] = {key: f"{path}:{line}" for key, line in written.lines.items()}
    for key, value in addressed.items():
        section, _, rest = key.partition(".")
        place = (section, rest) if rest else (section,)
        lines[place] = f"override '{key}={value}'"
    if problems := list(_problems(config, lines, str(path))):
        raise InvalidConfig(problems)
    return config


def _addressed(
    overrides: Sequence[str] | Mapping[str, Any], written: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the overrides by key, with those of the verb's keys below ``overrides``. A text is
    parsed as the key of its class: ``init=1e5`` names a directory.
    """
    kinds = {
        prefix: VERBS[stage["verb"]].config
        for prefix, stage in (("overrides.", written), ("then.overrides.", written.get("then")))
        if stage and stage.get("verb") in VERBS
    }
    of_verb = kinds.get("overrides.", SweepConfig).model_fields
    addressed = {}
    for item in [overrides] if isinstance(overrides, str) else overrides:
        key = item.partition("=")[0].strip()
        head = key.partition(".")[0]
        if head in of_verb and head not in SweepConfig.model_fields:
            key = f"overrides.{key}"
        prefix = next((name for name in kinds if key.startswith(name)), "")
        if isinstance(overrides, Mapping):
            addressed[key] = overrides[item]
        else:
            addressed[key] = parse_override(
                item, kinds.get(prefix, SweepConfig), key.removeprefix(prefix)
            )
    return addressed


def _problems(config: SweepConfig, lines: Mapping[Key, str], name: str) -> Iterator[Problem]:
    bases = [base_config(stage) for stage in config.stages]  # raises for mistakes of its own

    def where(section: str, key: str) -> str:
        return lines.get((section, key), lines.get((section,), f"{name}: {section}.{key}"))

    refused: set[str] = set()
    for key, scope in config.space.items():
        number = int(key.startswith(SECOND))
        stage_key = key.removeprefix(SECOND)
        problem: Problem | None = None
        if number >= len(bases):
            problem = Problem(where("space", key), f"{key}: there is no `then`", "add one")
        elif stage_key in OWN:
            message = f"{key}: the sweep sets directory and seed of a trial"
            problem = Problem(where("space", key), message, "leave it out; `seeds` repeats trials")
        elif at(type(bases[number]), tuple(stage_key.split("."))) is None:
            seen = scope.model_dump(exclude_none=True)
            problem = unknown_key(
                type(bases[number]), tuple(stage_key.split(".")), seen, where("space", key)
            )
        if problem:
            refused.add(key)
            yield problem
            continue
        yield from _refused_values(bases[number], stage_key, scope.edges, where("space", key))
    for point in config.points if not refused else ():
        for stage, values in zip(bases, split_by_stage(point), strict=False):
            yield from _problems_of_values(stage, values, where("points", ""))
    yield from _unknown_metrics(config, bases, lambda key: where(key, ""))


def _refused_values(
    stage: Config, key: str, values: Sequence[object], where: str
) -> Iterator[Problem]:
    for value in values:
        problems = list(_problems_of_values(stage, {key: value}, where))
        yield from problems
        if problems:
            return


def _problems_of_values(
    stage: Config, changes: Mapping[str, object], where: str
) -> Iterator[Problem]:
    try:
        override(stage, changes)
    except InvalidConfig as error:
        for problem in error.problems:
            yield Problem(where, problem.message, problem.remedy)


def _unknown_metrics(
    config: SweepConfig, bases: Sequence[Config], where: Callable[..., str]
) -> Iterator[Problem]:
    verb, last = config.stages[-1].verb, bases[-1]
    final = final_metrics(last)
    allowed = [*final, *COSTS]
    for metric in config.metric:
        if metric in allowed:
            continue
        near = nearest(metric, allowed, 0.4)
        message = f"metric = {metric}: `road {verb}` does not report it\n    allowed: "
        remedy = f"did you mean {near!r}?" if near else "use one of these"
        yield Problem(where("metric"), message + ", ".join(allowed), remedy)
        return
    if config.scheduler != "none" and config.metric[0] not in periodic_metrics(last):
        reported = (
            ", ".join(periodic_metrics(last)) or "nothing: training.evaluate_every_steps is not set"
        )
        yield Problem(
            where("metric"),
            f"metric = {config.metric[0]} is reported at the end of a run only, and scheduler = "
            f"{config.scheduler} needs it during the run\n    reported then: {reported}",
            "scheduler=none, or set training.evaluate_every_steps and judge by its figures",
        )
