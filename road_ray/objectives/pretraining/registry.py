"""Pre-training objectives by name. To add one, write a module and enter its class here.

The signature of ``__init__`` declares the objective: positional parameters name the models that it
needs (``generator``, ``model``: a language model, ``discriminator``), keyword-only ones are its
options with their defaults.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from road_ray.objectives.base import Objective

OBJECTIVES = {
    "electra": "Electra",
    "electra_masked": "ElectraMasked",
    "replace_mlm": "ReplaceMLM",
    "all_tokens_mlm": "AllTokensMLM",
    "mlm": "MaskedLanguageModel",
    "mc_bert": "MCBert",
    "teams": "Teams",
    "adversarial": "Adversarial",
}
"""The class of each objective, in the module of its name. Configuration reads the names alone: the
classes need torch, so ``objective_class`` loads them."""


def objective_class(name: str) -> type[Objective]:
    """Return the class of the objective ``name``, a key of ``OBJECTIVES``."""
    module = import_module(f"road_ray.objectives.pretraining.{name}")
    return cast("type[Objective]", getattr(module, OBJECTIVES[name]))


def models_of(kind: type[Objective]) -> tuple[str, ...]:
    """Return the names of the models that an objective needs, in the order of its parameters."""
    listed = inspect.signature(kind.__init__).parameters.values()
    return tuple(p.name for p in listed if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self")


def options_of(kind: type[Objective]) -> dict[str, Any]:
    """Return the options of an objective with their defaults; those of base classes come last."""
    from road_ray.objectives.base import Objective

    options: dict[str, Any] = {}
    for part in kind.__mro__:
        if "__init__" in vars(part) and issubclass(part, Objective):
            for parameter in inspect.signature(part.__init__).parameters.values():
                if parameter.kind is parameter.KEYWORD_ONLY:
                    options.setdefault(parameter.name, parameter.default)
    return options
