"""Pre-training of an encoder: prepare the corpus, build the objective, train, export.

The probe evaluates the encoder meanwhile: a copy is fine-tuned on small tasks.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from road_ray.data.batching import Batch, BatchStream
from road_ray.data.config import CorpusConfig
from road_ray.data.corpus.memory_mapped_corpus import Corpus
from road_ray.data.corpus.prepare_corpus import prepare_corpus
from road_ray.data.mixing import accumulated
from road_ray.data.tokenizer import limit_length, pad_id_of
from road_ray.distributed.batch_inference import encoding_at
from road_ray.errors import ConfigError, InterruptedRunError
from road_ray.models.architectures import longest_row, longest_row_of
from road_ray.models.encoder import model_directory
from road_ray.objectives.base import Objective
from road_ray.recipes.preflight_checks import check_stopping_metric, require_init, require_splits
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
from road_ray.recipes.train.config import FinetuneConfig, FinetuneDataConfig
from road_ray.recipes.train.train import run_training
from road_ray.system.files import staged_directory
from road_ray.training.loop import train
from road_ray.training.run_context import RunContext
from road_ray.training.worker import Worker

_STEPS = 300  # of each fine-tuning, as the sizes of its data: our choice, they bound its cost


def pretrain(config: PretrainConfig, context: RunContext | None = None) -> Run:
    """Train to ``training.steps``; the encoder is in ``run.hf_dir``, a generator in
    ``hf/generator``.
    """
    if done := load_finished_run(config):
        return done
    # What can be known before a corpus is built, which takes minutes or hours.
    if config.training.steps is None:
        raise ConfigError("training.steps is not given\n  allowed: a number of updates, at least 1")
    require_probe(config)
    check_stopping_metric(config)
    for key, init in (("init", config.init), ("generator.init", config.generator.init)):
        if init:
            model_directory(require_init(init, key), key)
    positions = config.encoder.max_length_tokens
    if (stored := stored_config(config.encoder, config.init)) is not None:
        positions = longest_row_of(stored)
    if config.data.max_length_tokens > positions:
        raise ConfigError(
            f"data.max_length_tokens = {config.data.max_length_tokens} exceeds the position table, "
            f"encoder.max_length_tokens = {positions}\n  fix: data.max_length_tokens={positions}"
        )
    keep = config.training.kept_at_end(default=1)
    with open_run_directory(config, keep_checkpoints=keep) as directory:
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
    objective, tokenizer = made.objective, made.tokenizer
    total, passes = config.training.steps or 1, config.training.passes

    def evaluate() -> dict[str, float]:
        return early_probe(config, objective, tokenizer, context) if worker.is_main else {}

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
        evaluate=evaluate if config.data.evaluate_on else None,
    ) as training:
        log = training.journal

        def steps(start: int) -> Iterator[list[Batch]]:
            return accumulated(made.stream.since(start * passes), passes)

        last = train(objective, steps, training)
        if worker.is_main and not context.plan_only:
            if config.data.evaluate_on:
                log.write(context.step, metrics := evaluate())
                last = last | metrics
            record: dict[str, Any] = {"objective": config.objective.name}
            record |= {"corpus": made.corpus.manifest}
            record |= {"init": config.init, "seed": config.seed, "metrics": last}
            with staged_directory(config.run_dir / "hf") as directory:
                made.objective.export(directory)
                for model in (directory, *directory.glob("generator")):
                    tokenizer.save_pretrained(model)
                write_model_record(directory, **record)
            log.finish(last)
    worker.barrier()
    return last


def early_probe(
    config: PretrainConfig, objective: Objective, tokenizer: Any, context: RunContext
) -> dict[str, float]:
    """Return ``eval/<data set>/<metric>`` of a fine-tuned copy of the current encoder. The
    pre-training is not affected, and only the metrics are kept. ``context`` is the pre-training's.

    Raises ``InterruptedRunError`` for a stop request meanwhile.
    """
    found: dict[str, float] = {}
    steps = dict.fromkeys(("steps", "save_every_steps", "log_every_steps"), _STEPS)
    with tempfile.TemporaryDirectory(prefix=".probe-", dir=config.run_dir) as place:
        encoder = Path(place) / "encoder"
        objective.export(encoder)
        tokenizer.save_pretrained(encoder)
        for name in config.data.evaluate_on:
            tuning = FinetuneConfig(
                run_dir=Path(place) / name,
                init=str(encoder),
                seed=config.seed,
                console="quiet",
                data=_data(config, name),
                optimizer=FinetuneConfig().optimizer.model_copy(update={"peak_lr": 3e-4}),
                training=FinetuneConfig().training.model_copy(update=steps),
            )
            try:
                # Rows, steps and notices of preemption are those of the pre-training alone.
                metrics = run_training(tuning, RunContext(stop=context.stop)).metrics
            except InterruptedRunError:
                raise InterruptedRunError(
                    f"stopped while a copy of the encoder was fine-tuned on {name}\n"
                    f"  kept: what {config.run_dir} holds of the pre-training\n"
                    "  to resume, run the same command"
                ) from None
            found |= {key: value for key, value in metrics.items() if key.startswith("eval/")}
    return found


def require_probe(config: PretrainConfig) -> None:
    """Raise ``DataError`` if a data set of the probe has no files: else the first error would come
    at the first probe.
    """
    require_splits(
        (split for name in config.data.evaluate_on for split in _data(config, name).splits()),
        "name data sets that are there (data.evaluate_on=[...]) or their directory (data.root=...)",
    )


def _data(config: PretrainConfig, dataset: str) -> FinetuneDataConfig:
    return FinetuneDataConfig(
        dataset=dataset,
        root=config.data.root,
        batch_size=32,
        max_length_tokens=min(64, config.data.max_length_tokens),
        max_rows=20_000,
        max_judged_rows=2000,
    )
