"""From the configuration of a pre-training run to its objective: the only place that sees both."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field, field_validator
from transformers import PreTrainedModel

from road_ray.config import Config
from road_ray.data.corpus.dataset import Corpus, tokenizer_digest
from road_ray.data.tokenizer import load_tokenizer, special_ids
from road_ray.errors import ConfigError, DataError
from road_ray.models.architectures import detector_output
from road_ray.models.corpus_init import (
    log_frequencies,
    look_at_neighbours,
    open_paths,
    sinusoidal_positions,
    start_from_corpus,
)
from road_ray.models.encoder import (
    EncoderConfig,
    check_vocabulary,
    load_encoder,
    load_language_model,
    model_directory,
    new_detector,
    new_language_model,
    scale_encoder,
)
from road_ray.models.weight_tying import Tying
from road_ray.objectives.base import Objective
from road_ray.objectives.parts.generator import Frequencies, Generator
from road_ray.objectives.registry import OBJECTIVES, models_of, options_of


class GeneratorConfig(Config):
    """The generator beside the main encoder. Source: Clark et al. 2020, section 3.2."""

    # What draws the replacements; "uniform" and "unigram" look at no context and learn nothing.
    kind: Literal["model", "uniform", "unigram"] = "model"
    # Of width, inner width and heads; 1/4 to 1/2 works best (figure 3).
    scale: float = Field(0.25, gt=0, le=1)
    depth: float = Field(1.0, gt=0, le=1)  # of layers; ELECTRA keeps all, TEAMS half
    # What it has in common with the main encoder: 83.6, 84.3, 84.4 GLUE points in this order.
    tying: Tying = "embeddings"
    # Go on from this masked language model of the generator's size (hf/ of an `mlm` run): it and
    # all embeddings. A generator that already knows words gives the discriminator work at once.
    init: str = ""
    frozen: bool = False  # it only draws: the second of two stages; needs tying=none and init


class ObjectiveConfig(Config):
    """What is learnt; an option that is null has the objective's own default, from its paper."""

    name: str = Field("electra", json_schema_extra={"enum": list(OBJECTIVES)})
    choose_fraction: float | None = Field(None, gt=0, lt=1)  # of real tokens; 0.15, Large 0.25
    # Of the chosen; the rest stay as they are: 0.85, in MC-BERT 1.
    mask_fraction: float | None = Field(None, ge=0, le=1)
    # lambda, of the main encoder's loss: 50 in ELECTRA, because a two-way loss is far smaller than
    # a V-way one; MC-BERT 50, TEAMS 5, 1 for the two MLM variants.
    discriminator_weight: float | None = Field(None, ge=0)
    temperature: float | None = Field(None, gt=0)  # of the sampling; 1
    disallow_correct: bool | None = None  # never draw the original; false
    candidates: int | None = Field(None, ge=2, le=100)  # to choose among: MC-BERT 10, TEAMS 5
    faithful: bool | None = None  # MC-BERT's label noise as in the released code; false
    selection_weight: float | None = Field(None, ge=0)  # TEAMS, of multi-word selection: 2
    shared_layers: int | None = Field(None, ge=0)  # TEAMS, lowest layers of both networks: 3
    generator_weight: float | None = Field(None, ge=0)  # adversarial, of the policy gradient: 1

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in OBJECTIVES:
            near = difflib.get_close_matches(name, OBJECTIVES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"no such objective{hint}; allowed: {', '.join(OBJECTIVES)}")
        return name


def build_objective(
    corpus: Corpus,
    tokenizer: Any,
    *,
    size: EncoderConfig,
    generator: GeneratorConfig,
    objective: ObjectiveConfig,
    init: str,
    start: str,
) -> Objective:
    """The objective with its models, new or from ``init``.

    Raises ``ConfigError`` for an option that it does not have.
    """
    kind = OBJECTIVES[objective.name]
    given = objective.model_dump(exclude={"name"}, exclude_none=True)
    known = options_of(kind)
    if odd := sorted(given.keys() - known.keys()):
        listed = ", ".join(sorted(ObjectiveConfig.model_fields.keys() & known.keys()))
        raise ConfigError(
            f"objective.{odd[0]} = {given[odd[0]]}: objective {objective.name!r} has no such option"
            f"\n  allowed: {listed}\n  fix: set it to null, or choose another objective.name"
        )
    given |= {"special_ids": special_ids(tokenizer), "mask_id": int(tokenizer.mask_token_id)}
    if "tying" in known:
        given["tying"] = "none" if generator.kind != "model" else generator.tying
    networks = _Networks(corpus, tokenizer, size, generator, objective, init, start)
    made: Objective = kind(*(networks.make(name) for name in models_of(kind)), **given)
    return made


class _Networks:
    """Makes the models that an objective names, the generator first."""

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Any,
        size: EncoderConfig,
        generator: GeneratorConfig,
        objective: ObjectiveConfig,
        init: str,
        start: str,
    ) -> None:
        if start == "corpus" and size.family != "electra":
            raise ConfigError(
                f"start = corpus with encoder.family = {size.family}: made for electra only\n"
                "  fix: start=random"
            )
        self.corpus, self.tokenizer, self.special = corpus, tokenizer, special_ids(tokenizer)
        self.size, self.settings, self.objective = size, generator, objective
        self.init, self.start = init, start
        self.generator: Generator | None = None
        self.vocab_size = len(tokenizer)
        for name, place in (("init", init), ("generator.init", generator.init)):
            if place:
                check_tokenizer(name, place, tokenizer)

    def make(self, name: str) -> Any:
        """The model of that name: ``generator``, ``model`` or ``discriminator``."""
        if name == "generator":
            self.generator = self._generator()
            return self.generator
        return self._model() if name == "model" else self._discriminator()

    def _generator(self) -> Generator:
        settings = self.settings
        if settings.kind != "model":
            chances = log_frequencies(self.corpus, self.vocab_size, self.special).exp()
            chances = torch.ones_like(chances) if settings.kind == "uniform" else chances
            chances[list(self.special)] = 0
            return Frequencies(chances)
        size = scale_encoder(self.size, settings.scale, settings.depth)
        if settings.tying != "all":  # it is thrown away, so every encoder may have this kind
            size = size.model_copy(update={"family": "electra"})
        model = self._language_model(size)
        if settings.init:
            load_language_model(model, settings.init, self.vocab_size)
        if settings.frozen:
            if not settings.init:
                raise ConfigError(
                    "generator.frozen = true without generator.init: it would draw noise for ever\n"
                    "  fix: generator.init=... (a finished `mlm` run of the generator's size)"
                )
            model.requires_grad_(False)
        return model

    def _language_model(self, size: EncoderConfig) -> PreTrainedModel:
        model: Any = new_language_model(size, self.vocab_size)
        if self.start == "corpus":
            sinusoidal_positions(model.electra, size.initializer_std)
            open_paths(model.electra)
            look_at_neighbours(model.electra)
            start_from_corpus(model, self.corpus, self.special, size.initializer_std)
        return model

    def _model(self) -> PreTrainedModel:
        model = self._language_model(self.size)
        self._take_embeddings(model)
        self._load_into(model)
        return model

    def _discriminator(self) -> PreTrainedModel:
        model: Any = new_detector(self.size, self.vocab_size)
        self._take_embeddings(model)
        if self.start == "corpus":
            open_paths(model.electra)
            # About this share of tokens is replaced while the generator knows little.
            share = (self.objective.choose_fraction or 0.15) * 0.9
            bias = detector_output(model).bias
            torch.nn.init.constant_(bias, float(np.log(share / (1 - share))))
        self._load_into(model)
        return model

    def _take_embeddings(self, model: Any) -> None:
        """Start from the generator's embeddings, which may know the corpus or be trained."""
        if not isinstance(self.generator, PreTrainedModel):
            return
        theirs: Any = self.generator.base_model
        ours = model.base_model.embeddings
        if ours.word_embeddings.weight.shape == theirs.embeddings.word_embeddings.weight.shape:
            ours.load_state_dict(theirs.embeddings.state_dict())

    def _load_into(self, model: Any) -> None:
        """Put the encoder of ``init`` into ``model``; its head for the vocabulary too, if any."""
        if not self.init:
            return
        directory = model_directory(self.init)
        loaded = load_encoder(directory, self.size.family)
        check_vocabulary(int(loaded.config.vocab_size), self.vocab_size, directory)
        try:
            model.base_model.load_state_dict(loaded.state_dict())
        except RuntimeError as error:
            raise ConfigError(
                f"init = {self.init}: its shape is not that of `encoder`:\n"
                f"  {str(error).splitlines()[1].strip()}\n"
                "  fix: give the encoder the size of that model"
            ) from error


def check_tokenizer(name: str, init: str, tokenizer: Any) -> None:
    """Raises ``ConfigError`` when the model that ``init`` names was trained with other tokens.

    A folder without a tokenizer cannot be checked but for its size, which is done on loading.
    """
    directory: Path | str = model_directory(init)
    place = Path(directory)
    if place.is_dir() and not any((place / f).is_file() for f in ("tokenizer.json", "vocab.txt")):
        if not (place.parent / "tokenizer.json").is_file():
            return
        directory = place.parent  # the generator of a run lies beside its discriminator's tokenizer
    try:
        theirs = load_tokenizer(directory)
    except DataError:
        return
    if tokenizer_digest(theirs) != tokenizer_digest(tokenizer):
        raise ConfigError(
            f"{name} = {init}: was trained with another vocabulary ({len(theirs)} entries) than "
            f"the corpus is cut with ({len(tokenizer)})\n"
            f"  fix: data.tokenizer={directory}"
        )
