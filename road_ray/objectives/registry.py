"""Every pre-training objective by its name. Adding one is a file and an entry here.

The signature of its ``__init__`` is its declaration: positional parameters name the models that it
is made of (``generator``, ``model``: a language model, ``discriminator``), keyword-only ones its
options with their defaults.
"""

from __future__ import annotations

import inspect
from typing import Any

from road_ray.objectives.adversarial import Adversarial
from road_ray.objectives.all_tokens_mlm import AllTokensMLM
from road_ray.objectives.base import Objective
from road_ray.objectives.electra import Electra
from road_ray.objectives.electra_masked import ElectraMasked
from road_ray.objectives.mc_bert import MCBert
from road_ray.objectives.mlm import MaskedLanguageModel
from road_ray.objectives.replace_mlm import ReplaceMLM
from road_ray.objectives.teams import Teams

OBJECTIVES: dict[str, type[Objective]] = {
    "electra": Electra,
    "electra_masked": ElectraMasked,
    "replace_mlm": ReplaceMLM,
    "all_tokens_mlm": AllTokensMLM,
    "mlm": MaskedLanguageModel,
    "mc_bert": MCBert,
    "teams": Teams,
    "adversarial": Adversarial,
}


def models_of(kind: type[Objective]) -> tuple[str, ...]:
    """The models that an objective is made of, in the order of its parameters."""
    listed = inspect.signature(kind.__init__).parameters.values()
    return tuple(p.name for p in listed if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self")


def options_of(kind: type[Objective]) -> dict[str, Any]:
    """Its options with their defaults, its own before those that it hands on."""
    found: dict[str, Any] = {}
    for part in kind.__mro__:
        if "__init__" in vars(part) and issubclass(part, Objective):
            for parameter in inspect.signature(part.__init__).parameters.values():
                if parameter.kind is parameter.KEYWORD_ONLY:
                    found.setdefault(parameter.name, parameter.default)
    return found
