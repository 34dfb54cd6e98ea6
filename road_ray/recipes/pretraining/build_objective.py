"""Build the objective of a pre-training run from its configuration."""

import logging
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedConfig, PreTrainedModel

from road_ray.data.corpus.memory_mapped_corpus import Corpus, tokenizer_digest
from road_ray.data.model_files import locate_model, read_config
from road_ray.data.tokenizer import load_tokenizer, pad_id_of, special_ids
from road_ray.errors import ConfigError, DataError
from road_ray.models import encoder
from road_ray.models.architectures import encoder_class
from road_ray.models.config import EncoderConfig
from road_ray.objectives.base import Objective
from road_ray.objectives.pretraining.generator import Frequencies, Generator
from road_ray.objectives.pretraining.registry import models_of, objective_class, options_of
from road_ray.recipes.pretraining.config import PretrainConfig

_GIVEN = {"special_ids", "mask_id", "tying"}  # what no key of ``objective`` says


def build_objective(
    corpus: Corpus, tokenizer: Any, config: PretrainConfig
) -> tuple[Objective, dict[str, list[str]]]:
    """Return the objective with its models, new or from ``init``, and the names of the ``kept`` and
    ``new`` heads of the main encoder.

    Raises ``ConfigError`` for an unknown option.
    """
    objective, generator = config.objective, config.generator
    kind = objective_class(objective.name)
    shared = objective.model_dump(exclude={"name", "options"}, exclude_none=True)
    known, options = options_of(kind), shared | objective.options
    if unknown := sorted(options.keys() - (known.keys() - _GIVEN)):
        raise ConfigError(
            f"objective: {objective.name!r} has no option {unknown[0]}\n"
            f"  allowed: {', '.join(sorted(known.keys() - _GIVEN))}\n"
            "  fix: leave it out, or choose another objective.name"
        )
    for name, value in objective.options.items():
        if type(known[name]) not in (type(value), float):
            raise ConfigError(
                f"objective.options.{name} is {value}\n"
                f"  allowed: a value like its default, {known[name]}"
            )
    options |= {"special_ids": special_ids(tokenizer), "mask_id": int(tokenizer.mask_token_id)}
    if "tying" in known:
        options["tying"] = "none" if generator.kind != "model" else generator.tying
    builder = _ModelBuilder(corpus, tokenizer, config)
    made: Objective = kind(*(builder.make(name) for name in models_of(kind)), **options)
    if builder.heads:  # parts of the objective alone are in no model, such as TEAMS' detection head
        parts = dict.fromkeys(name.partition(".")[0] for name, _ in made.named_parameters())
        builder.heads["new"] += [x for x in parts if x not in ("encoder", *models_of(kind))]
    return made, builder.heads


class _ModelBuilder:
    """Builder of the models of an objective, the generator first."""

    def __init__(self, corpus: Corpus, tokenizer: Any, config: PretrainConfig) -> None:
        self.init, self.size, self.settings = config.init, config.encoder, config.generator
        self.like = stored_config(self.size, self.init)
        if self.like is not None:
            self.size = encoder.size_of(self.like, self.size)
        self.corpus, self.special = corpus, special_ids(tokenizer)
        self.generator: Generator | None = None
        self.heads: dict[str, list[str]] = {}
        self.vocab_size = len(tokenizer)
        self.tokens = self.vocab_size, self.like, pad_id_of(tokenizer)
        for name, place in (("init", self.init), ("generator.init", self.settings.init)):
            if place:
                check_tokenizer(name, place, tokenizer)

    def make(self, name: str) -> Any:
        """Return the model of that name: ``generator``, ``model`` or ``discriminator``."""
        if name == "generator":
            self.generator = self._generator()
            return self.generator
        if name == "model":
            model: Any = encoder.new_language_model(self.size, *self.tokens)
        else:
            model = encoder.new_discriminator(self.size, *self.tokens)
        if isinstance(self.generator, PreTrainedModel) and self.like is None:
            # The generator's embeddings, which may be trained.
            source: Any = self.generator.base_model.embeddings
            target = model.base_model.embeddings
            if target.word_embeddings.weight.shape == source.word_embeddings.weight.shape:
                target.load_state_dict(source.state_dict())
        if self.init:
            directory = locate_model(encoder.model_directory(self.init))
            self.heads = encoder.load_parts(model, directory, "init", self.vocab_size)
            own = self.generator if self.settings.kind == "model" and self.settings.init else None
            both: Any = (own, model) if own is not None and self.settings.tying != "none" else ()
            if both and not torch.equal(*(x.get_input_embeddings().weight for x in both)):
                text = "%s has other embeddings than %s, which it gets\n  fix: generator.tying=none"
                logging.getLogger(__name__).warning(text, self.settings.init, self.init)
        return model

    def _generator(self) -> Generator:
        settings = self.settings
        if settings.kind in ("uniform", "unigram"):
            counts = np.full(self.vocab_size, 0.5)
            for shard in self.corpus.shards if settings.kind == "unigram" else ():
                counts += np.bincount(shard.tokens, minlength=self.vocab_size)
            counts[list(self.special)] = 0
            return Frequencies(torch.from_numpy(counts / counts.sum()).float())
        size = encoder.scale_encoder(self.size, settings.scale, settings.depth)
        if self.like is not None and settings.init:
            size = encoder.size_of(read_config(encoder.generator_directory(settings.init)), size)
        # It is not kept after the training, so its family may differ from the encoder's.
        if settings.tying != "all" and self.like is None:
            size = size.model_copy(update={"family": "electra"})
        model: Any = encoder.new_language_model(size, *self.tokens)
        if settings.init:
            encoder.load_language_model(model, settings.init, self.vocab_size)
        if settings.kind == "frozen":
            if not settings.init:
                raise ConfigError(
                    "generator.kind = frozen without generator.init: it would draw noise for ever\n"
                    "  fix: generator.init=... (a finished `mlm` run of the generator's size)"
                )
            model.requires_grad_(False)
        return model


def stored_config(size: EncoderConfig, init: str) -> PreTrainedConfig | None:
    """Return the configuration of the model that ``init`` names if the encoder has its family.

    Raises ``ConfigError`` if there is no ``init``, or its family has no masked language model.
    """
    if size.family != "init":
        return None
    if not init:
        raise ConfigError("encoder.family = init without init\n  fix: init=DIRECTORY of a model")
    config = read_config(locate_model(encoder.model_directory(init)))
    encoder_class(config)
    return config


def check_tokenizer(name: str, init: str, tokenizer: Any) -> None:
    """Raise ``ConfigError`` if the model at ``init`` was trained with another tokenizer.

    For a folder without a tokenizer, only the size of the vocabulary is checked, on loading.
    """
    directory = encoder.model_directory(init)
    try:
        trained_with = load_tokenizer(directory)
    except DataError:
        return
    if tokenizer_digest(trained_with) != tokenizer_digest(tokenizer):
        raise ConfigError(
            f"{name} = {init}: was trained with another tokenizer ({len(trained_with)} entries) "
            f"than the corpus is cut with ({len(tokenizer)})\n"
            f"  fix: data.tokenizer={directory}"
        )
