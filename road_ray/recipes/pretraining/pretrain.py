"""Pre-training of an encoder: prepare the corpus, build the objective, train, export."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from road_ray.data.batching import BatchStream
from road_ray.data.config import CorpusConfig
from road_ray.data.corpus.memory_mapped_corpus import Corpus
from road_ray.data.corpus.prepare_corpus import prepare_corpus
from road_ray.data.mixing import mixed
from road_ray.data.tokenizer import limit_length, pad_id_of
from road_ray.distributed.batch_inference import encoding_at
from road_ray.errors import ConfigError
from road_ray.models.architectures import longest_row
from road_ray.models.encoder import model_directory
from road_ray.objectives.base import Objective
from road_ray.recipes.preflight_checks import require_init
from road_ray.recipes.pretraining.build_objective import build_objective, stored_config
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.run_directory.input_files import identity_of
from road_ray.recipes.run_directory.model_record import write_model_record
from road_ray.recipes.run_directory.run import (
    Run,
    launch,
    load_finished_run,
    open_run_directory,
    open_training,
)
from road_ray.system.files import staged_directory
from road_ray.training.loop import train
from road_ray.training.run_context import RunContext
from road_ray.training.worker import Worker


def pretrain(config: PretrainConfig, context: RunContext | None = None) -> Run:
    """Train to ``training.steps``; the encoder is in ``run.hf_dir``, a generator in
    ``hf/generator``.
    """
    if done := load_finished_run(config):
        return done
    # What can be known before a corpus is built, which takes minutes or hours.
    if config.training.steps is None:
        raise ConfigError("training.steps is not given\n  allowed: a number of updates, at least 1")
    for key, init in (("init", config.init), ("generator.init", config.generator.init)):
        if init:
            model_directory(require_init(init, key), key)
    positions = config.encoder.max_length_tokens
    if (stored := stored_config(config.encoder, config.init)) is not None:
        positions = longest_row(stored)
    if config.data.max_length_tokens > positions:
        raise ConfigError(
            f"data.max_length_tokens = {config.data.max_length_tokens} exceeds the position table, "
            f"encoder.max_length_tokens = {positions}\n  fix: data.max_length_tokens={positions}"
        )
    given = config.training.keep_checkpoints_at_end
    with open_run_directory(config, keep_checkpoints=1 if given is None else given) as directory:
        # Once, before there are several workers.
        prepare_corpus(corpus_settings(config), encoding=encoding_at(config.address))
        metrics = launch(main, config, context=context)
    return Run(directory, metrics)


def corpus_settings(config: PretrainConfig) -> CorpusConfig:
    """Return the corpus settings, with the tokenizer of ``init`` unless another is named."""
    if not config.init or config.data.tokenizer is not None:
        return config.data
    return config.data.model_copy(update={"tokenizer": model_directory(config.init)})


@dataclass(frozen=True)
class Prepared:
    """Objective, corpus and batches: the same for a training and for its preview."""

    corpus: Corpus
    tokenizer: Any
    objective: Objective
    stream: BatchStream
    heads: dict[str, list[str]]  # of the main encoder: kept from `init`, and new

    def identity(self) -> dict[str, str]:
        """Return digests of corpus and batches, which must be equal on resuming."""
        facts = {"corpus": self.corpus.manifest, "batch": self.stream.batch_size}
        if self.corpus.window_rows:
            facts["window_rows"] = self.corpus.window_rows
        return identity_of(**facts)


def prepare(config: PretrainConfig, worker: Worker) -> Prepared:
    """Return corpus, new networks and the batches of this worker."""
    corpus, tokenizer = prepare_corpus(corpus_settings(config))
    torch.manual_seed(config.seed)
    objective, heads = build_objective(corpus, tokenizer, config)
    limit_length(tokenizer, longest_row(objective.encoder), config.data.max_length_tokens)
    stream = BatchStream(
        corpus,
        config.data.batch_size,
        config.seed,
        pad_id=pad_id_of(tokenizer),
        rank=worker.rank,
        size=worker.size,
        noise_channels=objective.noise_channels,
    )
    return Prepared(corpus, tokenizer, objective, stream, heads)


def main(config: PretrainConfig, worker: Worker, context: RunContext) -> dict[str, float]:
    """Pre-train on one worker; return the last metrics."""
    made = prepare(config, worker)
    tokenizer = made.tokenizer
    total, passes = config.training.steps or 1, config.training.passes

    with open_training(
        config,
        worker,
        context,
        heads=made.heads,
        total_steps=total,
        tokenizer=tokenizer,
        identity=made.identity(),
        rows_per_epoch=made.corpus.manifest["rows"],
        totals=lambda: made.stream.totals(total * passes),
    ) as training:
        steps = partial(mixed, {"": made.stream.since}, lambda step: [""] * passes)
        last = train(made.objective, steps, training)
        if worker.is_main and not context.plan_only:
            record: dict[str, Any] = {"objective": config.objective.name}
            record |= {"corpus": made.corpus.manifest}
            record |= {"init": config.init, "seed": config.seed, "metrics": last}
            with staged_directory(config.run_dir / "hf") as directory:
                made.objective.export(directory)
                for model in (directory, *directory.glob("generator")):
                    tokenizer.save_pretrained(model)
                write_model_record(directory, **record)
            training.journal.finish(last)
    worker.barrier()
    return last
