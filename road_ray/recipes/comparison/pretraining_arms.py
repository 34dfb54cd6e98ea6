"""Published comparisons of pre-training methods: the changes and published score of each arm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Stage = Mapping[str, Any]  # changes to the pre-training of all arms, by dotted key


@dataclass(frozen=True)
class Arm:
    """One method. Later stages start from the encoder, and the generator, of the one before."""

    name: str
    about: str
    published: float | None  # GLUE dev score; None where the papers print none
    stages: tuple[Stage, ...]
    budget: float = 1.0  # share of the comparison's budget, divided evenly among the stages


@dataclass(frozen=True)
class Comparison:
    """Arms that differ in one thing, at equal cost or for equally many updates."""

    about: str
    source: str
    equal: Literal["flops", "steps"]
    arms: tuple[Arm, ...]  # the first is what the others are compared with


def _objective(name: str, about: str, published: float | None, **changes: object) -> Arm:
    return Arm(name, about, published, ({"objective.name": name} | changes,))


def _scale(scale: float, published: float) -> Arm:
    return Arm(f"scale_{scale}", f"generator x {scale}", published, ({"generator.scale": scale},))


def _tying(name: str, about: str, published: float) -> Arm:
    return Arm(name, about, published, ({"generator.scale": 1.0, "generator.tying": name},))


_ELECTRA = _objective("electra", "ELECTRA", 85.0)
_SECOND = {"generator.scale": 1.0, "generator.tying": "none", "generator.frozen": True}
_TEAMS = {"generator.scale": 1.0, "generator.depth": 0.5, "objective.shared_layers": 1}

COMPARISONS: dict[str, Comparison] = {
    "table5": Comparison(
        "five objectives at equal cost",
        "Clark et al. 2020, table 5",
        "flops",
        (
            _ELECTRA,
            _objective("all_tokens_mlm", "All-Tokens MLM", 84.3),
            _objective("replace_mlm", "Replace MLM", 82.4),
            _objective("electra_masked", "ELECTRA 15%", 82.4),
            _objective("mlm", "BERT", 82.2),
        ),
    ),
    "generator_size": Comparison(
        "generators from unigrams to the discriminator's size, equally many updates",
        "Clark et al. 2020, figure 3 (width 256, digitised)",
        "steps",
        (
            _scale(0.25, 79.76),
            Arm("unigram", "unigram generator", 78.2, ({"generator.kind": "unigram"},)),
            _scale(0.125, 79.41),
            _scale(0.5, 79.57),
            _scale(1.0, 79.10),
        ),
    ),
    "tying": Comparison(
        "what generator and discriminator of one size share, equally many updates",
        "Clark et al. 2020, section 3.2",
        "steps",
        (
            _tying("embeddings", "token embeddings", 84.3),
            _tying("none", "nothing", 83.6),
            _tying("all", "all weights", 84.4),
        ),
    ),
    "algorithms": Comparison(
        "joint, two-stage and adversarial training at equal cost",
        "Clark et al. 2020, section 3.3 (figure 3 right prints no values)",
        "flops",
        (
            _objective("electra", "joint", None),
            Arm("two_stage", "two stages", None, ({"objective.name": "mlm"}, _SECOND)),
            _objective("adversarial", "adversarial", None),
        ),
    ),
    "successors": Comparison(
        "MC-BERT and TEAMS against ELECTRA at equal cost",
        "arXiv 2006.05744 and 2106.00139 (their tables are not available)",
        "flops",
        (
            _objective("electra", "ELECTRA", None),
            _objective("mc_bert", "MC-BERT", None),
            Arm("teams", "TEAMS", None, ({"objective.name": "teams"} | _TEAMS,)),
        ),
    ),
    "fractions": Comparison(
        "ELECTRA with ever less training",
        "Clark et al. 2020, table 1",
        "flops",
        tuple(
            Arm(f"{share:g}%", f"{share:g}% of the training", published, ({},), share / 100)
            for share, published in (
                *((100, 79.9), (50, 79.0), (25, 77.7)),
                *((12.5, 76.0), (6.25, 74.1)),
            )
        ),
    ),
}
