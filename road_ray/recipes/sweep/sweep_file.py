"""Sweep files: loaded, with every mistake reported before the first trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from road_ray.config import Config, InvalidConfig, load, override
from road_ray.config import yaml_files as yaml_lines
from road_ray.config.merge import parse_override
from road_ray.config.messages import unknown_key
from road_ray.config.schema import Key, at
from road_ray.distributed.tune.search_config import Range
from road_ray.errors import Problem, nearest
from road_ray.recipes.preflight_checks import final_metrics, periodic_metrics
from road_ray.recipes.sweep.config import SweepConfig, locate
from road_ray.recipes.sweep.trials import COSTS, OWN, SECOND, base_config, split_by_stage
from road_ray.verbs import VERBS


def load_sweep(
    name: str | Path, overrides: Sequence[str] | Mapping[str, Any] = (), **keys: object
) -> SweepConfig:
    """Return the sweep of a file or a shipped name. Overrides, as texts or by key, are keys of the
    sweep (``trials=8``) or of its verb (``data.root=...``, short for ``overrides.data.root=...``).

    Raises ``InvalidConfig`` with the line of every mistake, before anything starts.
    """
    path = locate(name)
    written = yaml_lines.read_yaml(path)
    addressed = _addressed(overrides, keys, written.values)
    config = load(SweepConfig, path=path, overrides=addressed)
    if not config.name:
        config = config.model_copy(update={"name": path.stem})
    lines: dict[Key, str] = {key: f"{path}:{line}" for key, line in written.lines.items()}
    for key, value in addressed.items():
        lines[tuple(filter(None, key.split(".", 1)))] = f"override '{key}={value}'"

    def where(section: str, key: str = "") -> str:
        return lines.get((section, key), lines.get((section,), f"{path}: {section}.{key}"))

    bases = [base_config(stage) for stage in config.stages]  # raises for mistakes of its own
    problems: list[Problem] = []
    for key, scope in config.space.items():
        problems += _of_range(key, scope, bases, where("space", key))
    for point in config.points if not problems else ():
        for base, values in zip(bases, split_by_stage(point), strict=False):
            problems += _refused(base, [values], where("points"))
    problems += _of_metrics(config, bases[-1], where("metric"))
    if problems:
        raise InvalidConfig(problems)
    return config


def _addressed(
    overrides: Sequence[str] | Mapping[str, Any],
    keys: Mapping[str, Any],
    written: Mapping[str, Any],
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

    def address(key: str) -> str:
        head = key.strip().partition(".")[0]
        short = head in of_verb and head not in SweepConfig.model_fields
        return f"overrides.{key.strip()}" if short else key.strip()

    if isinstance(overrides, Mapping):
        return {address(key): value for key, value in {**overrides, **keys}.items()}
    addressed = {}
    for text in [overrides] if isinstance(overrides, str) else overrides:
        key = address(text.partition("=")[0])
        prefix = next((name for name in kinds if key.startswith(name)), "")
        kind = kinds.get(prefix, SweepConfig)
        addressed[key] = parse_override(text, kind, key.removeprefix(prefix))
    return addressed | {address(key): value for key, value in keys.items()}


def _of_range(key: str, scope: Range, bases: Sequence[Config], where: str) -> Iterator[Problem]:
    """Yield the mistakes of one range of the space."""
    number, stage_key = int(key.startswith(SECOND)), key.removeprefix(SECOND)
    place = tuple(stage_key.split("."))
    if number >= len(bases):
        yield Problem(where, f"{key}: there is no `then`", "add one")
    elif stage_key in OWN:
        message = f"{key}: the sweep sets directory and seed of a trial"
        yield Problem(where, message, "leave it out; `seeds` repeats trials")
    elif at(type(bases[number]), place) is None:
        yield unknown_key(type(bases[number]), place, scope.model_dump(exclude_none=True), where)
    else:
        yield from _refused(bases[number], ({stage_key: value} for value in scope.edges), where)


def _refused(
    base: Config, candidates: Iterable[Mapping[str, object]], where: str
) -> Iterator[Problem]:
    """Yield the mistakes of the first candidates that the configuration of a run refuses."""
    for changes in candidates:
        try:
            override(base, changes)
        except InvalidConfig as error:
            for problem in error.problems:
                yield Problem(where, problem.message, problem.remedy)
            return


def _of_metrics(config: SweepConfig, last: Config, where: str) -> Iterator[Problem]:
    """Yield a problem for a metric that no run reports, or not when the scheduler needs it."""
    verb, allowed = config.stages[-1].verb, [*final_metrics(last), *COSTS]
    for metric in config.metric:
        if metric not in allowed:
            near = nearest(metric, allowed, 0.4)
            message = f"metric = {metric}: `road {verb}` does not report it\n    allowed: "
            remedy = f"did you mean {near!r}?" if near else "use one of these"
            yield Problem(where, message + ", ".join(allowed), remedy)
            return
    periodic = periodic_metrics(last)
    if config.scheduler != "none" and config.metric[0] not in periodic:
        reported = ", ".join(periodic) or "nothing: training.evaluate_every_steps is not set"
        yield Problem(
            where,
            f"metric = {config.metric[0]} is reported at the end of a run only, and scheduler = "
            f"{config.scheduler} needs it during the run\n    reported then: {reported}",
            "scheduler=none, or set training.evaluate_every_steps and take its metrics",
        )
