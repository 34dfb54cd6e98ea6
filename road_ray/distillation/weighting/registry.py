"""Rules by name: those of this folder, and functions of a module of the user's own."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor

from road_ray.distillation.weighting.averaging import mean, mean_probabilities, probability_shift
from road_ray.distillation.weighting.combine import Merge, Rule
from road_ray.distillation.weighting.confidence import confidence, entropy
from road_ray.distillation.weighting.correctness import correct_only, correctness
from road_ray.errors import ConfigError, RoadError, did_you_mean

RULES: dict[str, Callable[..., Tensor]] = {
    "mean": mean,
    "correctness": correctness,
    "correct_only": correct_only,
    "confidence": confidence,
    "entropy": entropy,
    "mean_probabilities": mean_probabilities,
    "probability_shift": probability_shift,
}


def default_rule(num_teachers: int) -> str:
    """Return the default rule for ``num_teachers`` teachers of a row: ROaD's for several; for one
    the mean, which is plain knowledge distillation.
    """
    return "mean" if num_teachers == 1 else "correctness"


def options_of(name: str) -> tuple[str, ...]:
    """Return the names of the options of the rule ``name``. Raises ``ConfigError`` for no rule."""
    parameters = inspect.signature(_function(name)).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def resolve(name: str, **options: object) -> Rule:
    """Return a rule with its options bound: one of ``RULES``, or a function of any module by
    ``package.module:name``; the module may lie in the working directory.

    The rule is called once with two teachers, three rows and four classes, so that a mistake fails
    here and not in step 1. Raises ``ConfigError`` for an unknown name, option or value, a module
    that cannot be imported, and a function that is no rule.
    """
    if unknown := options.keys() - options_of(name):
        raise ConfigError(
            f"weighting.{min(unknown)}: no option of {name}\n"
            f"  allowed: {', '.join(options_of(name)) or 'none'}"
        )
    rule = functools.partial(_function(name), **options)
    try:
        shape = tuple(rule(torch.zeros(2, 3, 4), torch.zeros(3, dtype=torch.long)).shape)
    except RoadError:
        raise
    except Exception as error:
        raise _no_rule(name, f"called with logits [2, 3, 4] and targets [3]: {error!r}") from error
    if shape == (2, 3):
        return rule
    if shape == (3, 4):
        return Merge(rule)
    raise _no_rule(name, f"returns {list(shape)} for logits [2, 3, 4] and targets [3]")


def _function(name: str) -> Callable[..., Tensor]:
    module, colon, attribute = name.partition(":")
    if not colon:
        if name not in RULES:
            raise ConfigError(
                f"weighting.rule: unknown rule {name!r}{did_you_mean(name, RULES)}\n"
                f"  allowed: {', '.join(RULES)}, or package.module:name"
            )
        return RULES[name]
    if (directory := str(Path.cwd())) not in sys.path:
        sys.path.append(directory)  # as `python -m` does; Ray does so for its workers
    try:
        function = getattr(import_module(module), attribute)
        inspect.signature(function)
    except Exception as error:  # whatever the module raises
        raise _no_rule(name, repr(error)) from error
    return function  # type: ignore[no-any-return]  # seen when it is called


def _no_rule(name: str, problem: str) -> ConfigError:
    return ConfigError(
        f"weighting.rule = {name}: {problem}\n"
        "  allowed: a function of logits [M, B, ..., C] and targets [B, ...] that returns weights "
        "[M, B, ...] or soft logits [B, ..., C]; its options are keyword-only and have defaults\n"
        "  fix: correct it until road_ray.testing.check_rule passes\n  nothing was started"
    )
