"""Pre-train: a corpus to shards, shards to batches, and an encoder out of a generator and a
discriminator.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from road_ray.config import Config
from road_ray.data.batches import Batch, BatchStream
from road_ray.data.corpus import Corpus
from road_ray.data.corpus_source import CorpusConfig, prepare_corpus
from road_ray.data.mixing import accumulated
from road_ray.data.tokenizer import special_ids
from road_ray.distributed.launch import launch
from road_ray.errors import ConfigError
from road_ray.models.encoder import (
    EncoderConfig,
    check_vocabulary,
    hugging_face_config,
    initialize,
    initialize_output,
    load_encoder,
    load_language_model,
    model_directory,
    scaled,
)
from road_ray.models.start import (
    look_at_neighbours,
    open_paths,
    sinusoidal_positions,
    start_from_corpus,
)
from road_ray.objectives.base import Objective
from road_ray.objectives.electra import Electra
from road_ray.objectives.mlm import MaskedLanguageModel
from road_ray.recipes.lineage import sign
from road_ray.recipes.run import Run, RunConfig, checkpoints, finished, journal, opened
from road_ray.training.journal import read_rows
from road_ray.training.loop import Training, TrainingConfig, identity_of, train
from road_ray.training.optimizer import OptimizerConfig
from road_ray.training.worker import Worker


class GeneratorConfig(Config):
    """The generator's size beside the discriminator's. Source: Clark et al. 2020, section 3.2."""

    # Of width, inner width and heads; 1/4 to 1/2 works best (figure 3).
    scale: float = Field(0.25, gt=0, le=1)
    # Go on from this masked language model of the generator's size (hf/ of an `mlm` run): it and
    # all embeddings. A generator that already knows words gives the discriminator work at once.
    init: str = ""


class ObjectiveConfig(Config):
    """What is learnt. Source: Clark et al. 2020, section 2 and table 6."""

    name: Literal["electra", "mlm"] = "electra"
    choose_fraction: float = Field(0.15, gt=0, lt=1)  # of real tokens; 0.25 for Large
    mask_fraction: float = Field(0.85, ge=0, le=1)  # of the chosen; the rest stay as they are
    discriminator_weight: float = Field(
        50.0, ge=0
    )  # lambda: a two-way loss is far smaller than a V-way one
    temperature: float = Field(1.0, gt=0)  # of the sampling


class PretrainConfig(RunConfig):
    """Source of the defaults: ELECTRA-Small, Clark et al. 2020, table 6."""

    run_dir: Path = Path("runs/pretrain")
    init: str = ""  # go on from this encoder; empty: new weights
    # Of new weights. "corpus": words, positions and first heads start from what the corpus says
    # (models/start.py); for models and budgets so small that they would not leave the frequencies.
    start: Literal["random", "corpus"] = "random"
    data: CorpusConfig = CorpusConfig()
    encoder: EncoderConfig = EncoderConfig()
    generator: GeneratorConfig = GeneratorConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optimizer: OptimizerConfig = OptimizerConfig(peak_lr=5e-4, warmup_steps=10_000)
    training: TrainingConfig = TrainingConfig(steps=1_000_000)


def pretrain(config: PretrainConfig) -> Run:
    """Train to ``training.steps``; the encoder is in ``run.hf_dir``, a generator in
    ``hf/generator``.
    """
    return finished(config) or _run(config)


def _run(config: PretrainConfig) -> Run:
    if config.training.steps is None:
        raise ConfigError("training.steps is not given\n  allowed: a number of updates, at least 1")
    with opened(config) as directory:
        prepare_corpus(config.data)  # once, before there are several workers
        metrics = launch(
            main,
            config,
            workers=config.workers,
            gpus_per_worker=config.gpus_per_worker,
            address=config.address,
            scratch=directory,
        )
    return Run(directory, metrics)


def main(config: PretrainConfig, worker: Worker) -> dict[str, float]:
    """What every worker does."""
    corpus, tokenizer = prepare_corpus(config.data)
    if config.data.max_length_tokens > config.encoder.max_length_tokens:
        raise ConfigError(
            f"data.max_length_tokens = {config.data.max_length_tokens} exceeds the position table, "
            f"encoder.max_length_tokens = {config.encoder.max_length_tokens}"
        )
    torch.manual_seed(config.seed)
    objective = build_objective(config, corpus, tokenizer)
    stream = BatchStream(
        corpus,
        batch_size=config.data.batch_size,
        seed=config.seed,
        pad_id=int(tokenizer.pad_token_id),
        rank=worker.rank,
        size=worker.size,
        noise=True,
        name="corpus",
    )
    total = config.training.steps or 1
    passes = config.training.passes

    def steps(start: int) -> Iterator[list[Batch]]:
        return accumulated(stream.since(start * passes), passes)

    with journal(config, leads=worker.leads, total_steps=total) as log:
        training = Training(
            config=config.training,
            optimizer=config.optimizer,
            total_steps=total,
            seed=config.seed,
            checkpoints=checkpoints(config, log, keep=config.training.keep_checkpoints),
            journal=log,
            tokenizer=tokenizer,
            identity=identity_of(corpus=corpus.manifest, batch=config.data.batch_size),
        )
        last = train(objective, steps, training, worker) or _last_row(config)
        if worker.leads:
            objective.export(config.run_dir / "hf")
            tokenizer.save_pretrained(config.run_dir / "hf")
            sign(
                config.run_dir / "hf",
                objective=config.objective.name,
                corpus=corpus.manifest,
                init=config.init,
                seed=config.seed,
                metrics=last,
            )
            log.finish(last)
    worker.barrier()
    return last


def _last_row(config: PretrainConfig) -> dict[str, float]:
    """The last row of the journal, for a run that was stopped after its last step."""
    rows = read_rows(config.run_dir / "metrics.jsonl")
    last = rows[-1] if rows else {}
    return {name: value for name, value in last.items() if name != "step" and value is not None}


def build_objective(config: PretrainConfig, corpus: Corpus, tokenizer: Any) -> Objective:
    """The objective with its models, new or from ``init``: the only place that sees the
    configuration.
    """
    settings, vocab_size = config.objective, len(tokenizer)
    shared: dict[str, Any] = {
        "special_ids": special_ids(tokenizer),
        "mask_id": int(tokenizer.mask_token_id),
        "choose_fraction": settings.choose_fraction,
        "mask_fraction": settings.mask_fraction,
    }
    if settings.name == "mlm":
        model = _language_model(config, config.encoder, corpus, vocab_size, shared["special_ids"])
        _load_into(model.electra, config.init, vocab_size)
        return MaskedLanguageModel(model, **shared)
    size = scaled(config.encoder, config.generator.scale)
    generator = _language_model(config, size, corpus, vocab_size, shared["special_ids"])
    if config.generator.init:
        load_language_model(generator, config.generator.init, vocab_size)
    discriminator = _detector(config, vocab_size, generator.electra.embeddings)
    _load_into(discriminator.electra, config.init, vocab_size)
    return Electra(
        generator,
        discriminator,
        **shared,
        discriminator_weight=settings.discriminator_weight,
        temperature=settings.temperature,
    )


def _language_model(
    config: PretrainConfig,
    size: EncoderConfig,
    corpus: Corpus,
    vocab_size: int,
    special: tuple[int, ...],
) -> ElectraForMaskedLM:
    model = ElectraForMaskedLM(hugging_face_config(size, vocab_size))
    initialize(model, size.initializer_std)
    if config.start == "corpus":
        sinusoidal_positions(model.electra, size.initializer_std)
        open_paths(model.electra)
        look_at_neighbours(model.electra)
        start_from_corpus(model, corpus, special, size.initializer_std)
    return model


def _detector(
    config: PretrainConfig, vocab_size: int, embeddings: torch.nn.Module
) -> ElectraForPreTraining:
    size = config.encoder
    model = ElectraForPreTraining(hugging_face_config(size, vocab_size))
    initialize(model, size.initializer_std)
    output = model.discriminator_predictions.dense_prediction
    initialize_output(output)
    model.electra.embeddings.load_state_dict(embeddings.state_dict())
    if config.start == "corpus":
        open_paths(model.electra)
        # About this share of tokens is replaced while the generator knows little.
        share = config.objective.choose_fraction * 0.9
        torch.nn.init.constant_(output.bias, float(np.log(share / (1 - share))))
    return model


def _load_into(encoder: Any, init: str, tokenizer_size: int) -> None:
    if not init:
        return
    directory = model_directory(init)
    loaded = load_encoder(directory)
    check_vocabulary(loaded.config.vocab_size, tokenizer_size, directory)
    try:
        encoder.load_state_dict(loaded.state_dict())
    except RuntimeError as error:
        raise ConfigError(
            f"init = {init}: its shape is not that of `encoder`:\n"
            f"  {str(error).splitlines()[1].strip()}\n"
            "  fix: give the encoder the size of that model"
        ) from error
