"""Pre-training objectives by name. To add one, write a module and enter its class here, or name a
class of your own: ``objective.name=package.module:Class``.

The signature of ``__init__`` declares the objective: positional parameters name the models that it
needs (``generator``, ``model``: a language model, ``discriminator``), keyword-only ones are its
options with their defaults.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from road_ray.system.own_names import named_object, unfit

if TYPE_CHECKING:
    from road_ray.objectives.base import Objective

OBJECTIVES = {
    "electra": "electra:Electra",
    "electra_masked": "electra:ElectraMasked",
    "replace_mlm": "mlm:ReplaceMLM",
    "all_tokens_mlm": "mlm:AllTokensMLM",
    "mlm": "mlm:MaskedLanguageModel",
    "mc_bert": "candidates:MCBert",
    "teams": "candidates:Teams",
    "adversarial": "electra:Adversarial",
}
"""Module and class of each objective. Configuration reads the names alone: the classes need torch,
so ``objective_class`` loads them."""
_CONTRACT = (
    "a subclass of road_ray.objectives.base.Objective whose positional parameters are among "
    "generator, model and discriminator; its options are keyword-only and have defaults\n"
    "  fix: correct it until road_ray.testing.check_objective passes"
)


def objective_class(name: str) -> type[Objective]:
    """Return the class of the objective ``name``: of ``OBJECTIVES``, or ``package.module:Class``.

    Raises ``ConfigError`` for a module that cannot be imported and for what is no objective.
    """
    from road_ray.objectives.base import Objective

    shipped = {n: f"road_ray.objectives.pretraining.{kind}" for n, kind in OBJECTIVES.items()}
    found = named_object("objective.name", name, shipped, _CONTRACT)
    if not (isinstance(found, type) and issubclass(found, Objective)):
        raise unfit("objective.name", name, f"{found!r} is no objective", _CONTRACT)
    return found


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
